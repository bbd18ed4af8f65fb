//! `ingero-mcp` on stdin and stdout, spoken to by hand.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a harness tells the test that it failed by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use serde_json::{Value, json};

use crate::tool;

/// How long any answer may take.
const LIMIT: Duration = Duration::from_secs(120);

/// A server on stdin and stdout, spoken to by hand.
#[derive(Debug)]
pub struct McpServer {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Option<ChildStderr>,
}

impl McpServer {
    /// Starts it in the root of the repository.
    #[must_use]
    pub fn start(args: &[&str]) -> Self {
        Self::start_with(args, &[])
    }

    /// Starts it with these in its environment.
    #[must_use]
    pub fn start_with(args: &[&str], env: &[(&str, &str)]) -> Self {
        let mut child = Command::new(tool("ingero-mcp"))
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
            .args(args)
            .envs(env.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (send, lines) = mpsc::channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || out.lines().map_while(Result::ok).for_each(|line| drop(send.send(line))));
        Self { stdin: child.stdin.take(), errors: child.stderr.take(), child, lines }
    }

    /// Sends a line as it is.
    pub fn send(&mut self, line: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(line).unwrap();
        stdin.write_all(b"\n").unwrap();
        stdin.flush().unwrap();
    }

    /// The next message from it.
    #[must_use]
    pub fn next(&self) -> Value {
        let line = self.lines.recv_timeout(LIMIT).expect("an answer was due");
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        assert_eq!(answer["jsonrpc"], "2.0");
        answer
    }

    /// Sends a message and returns the next one from it.
    pub fn ask(&mut self, message: &Value) -> Value {
        self.send(message.to_string().as_bytes());
        self.next()
    }

    /// Introduces a client, and returns the answer.
    pub fn hello(&mut self) -> Value {
        let hello = self.ask(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}));
        self.send(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        hello
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends that a tool is to be called, and waits for nothing.
    pub fn begin(&mut self, id: u64, tool: &str, arguments: &Value) {
        let params = json!({"name": tool, "arguments": arguments});
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        self.send(message.to_string().as_bytes());
    }

    /// Sends bytes and closes its stdin.
    pub fn send_last(&mut self, bytes: &[u8]) {
        if let Some(mut stdin) = self.stdin.take() {
            stdin.write_all(bytes).unwrap_or_else(|e| panic!("ingero-mcp reads no more: {e}"));
        }
    }

    /// The result of a tool.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        let answer = self.ask(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
        assert_eq!(answer["id"], 1, "{answer}");
        answer["result"].clone()
    }

    /// The message of a tool that could not do what was asked.
    pub fn problem(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Waits for its end, whatever brings it about.
    pub fn wait(&mut self) {
        self.child.wait().unwrap_or_else(|e| panic!("ingero-mcp: {e}"));
    }

    /// Ends the server as a client does; what it said on stderr.
    pub fn end(mut self) -> String {
        drop(self.stdin.take());
        let mut errors = String::new();
        self.errors.take().unwrap().read_to_string(&mut errors).unwrap();
        assert!(self.child.wait().unwrap().success());
        if let Ok(line) = self.lines.recv_timeout(LIMIT) {
            panic!("nothing more was due on stdout: {line}");
        }
        errors
    }
}
