//! `ingero-mcp` as clients use it: the official SDK, a recorded session, problems, HTTP. Needs no root.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use ingero_tests::{McpServer, Running, assistant_python, bad_input, run, tool};
use serde_json::{Value, json};
use tempfile::tempdir;

const LIMIT: Duration = Duration::from_secs(120);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn investigate(args: &[&str]) -> Command {
    let mut python = assistant_python();
    python.current_dir(root()).arg("tests/assistant/investigate.py").args(args);
    python
}

/// The numbers of a sentence, with their units where they have one.
fn numbers(sentence: &str) -> Vec<String> {
    let words: Vec<&str> = sentence.split_whitespace().map(|w| w.trim_end_matches([',', '.', ';', ':'])).collect();
    let is_number = |w: &str| w.starts_with(|c: char| c.is_ascii_digit());
    let with_unit = |i: usize| match words.get(i + 1) {
        Some(unit @ (&"s" | &"ms" | &"us" | &"ns" | &"%")) => format!("{} {unit}", words[i]),
        _ => words[i].to_owned(),
    };
    (0..words.len()).filter(|&i| is_number(words[i])).map(with_unit).collect()
}

/// Whether a text holds a number as a whole, not as a part of a longer one.
fn holds(text: &str, number: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_';
    text.match_indices(number).any(|(at, _)| {
        let before = text[..at].chars().next_back().is_none_or(|c| !part(c));
        let mut after = text[at + number.len()..].chars();
        let ends = match (after.next(), after.next()) {
            (Some('.'), next) => next.is_none_or(|c| !c.is_ascii_digit()),
            (Some(c), _) => !part(c),
            (None, _) => true,
        };
        before && ends
    })
}

#[test]
fn numbers_are_found_as_wholes() {
    assert_eq!(numbers("Lost 5.24 s of 8 s, 65 % of phase 0; 204 gaps."), ["5.24 s", "8 s", "65 %", "0", "204"]);
    assert!(holds("lost 5.24 s (65 %)", "5.24 s") && holds("phase 0.", "0"));
    assert!(!holds("lost 15.24 s", "5.24 s") && !holds("5.24 sec", "5.24 s") && !holds("0.5", "0"));
}

/// Each number of each claim stands in an answer, and the advice is that of a chain.
fn assert_grounded(session: &Value) {
    let texts: Vec<&str> = session["answers"].as_array().unwrap().iter().map(|a| a["text"].as_str().unwrap()).collect();
    let claims = session["claims"].as_array().unwrap();
    assert!(claims.len() >= 8, "{claims:?}");
    for claim in claims.iter().map(|c| c.as_str().unwrap()) {
        for number in numbers(claim) {
            assert!(texts.iter().any(|text| holds(text, &number)), "{number:?} of {claim:?} is in no answer");
        }
    }
    for advice in session["advice"].as_array().unwrap() {
        assert!(texts.iter().any(|text| text.contains(advice.as_str().unwrap())), "{advice}");
    }
}

fn assert_whole_session(session: &Value) {
    assert_eq!(session["server"], "ingero-mcp");
    assert_eq!(session["prompts"], json!(["investigate"]));
    let tools: Vec<&str> = session["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    let called: BTreeSet<&str> =
        session["answers"].as_array().unwrap().iter().map(|a| a["tool"].as_str().unwrap()).collect();
    assert_eq!(called, tools.iter().copied().collect(), "every tool is used");
    let prompt = session["prompt"].as_str().unwrap();
    let places: Vec<usize> = tools.iter().map(|tool| prompt.find(tool).unwrap()).collect();
    assert!(places[..4].is_sorted(), "the prompt leads from health to causes: {prompt}");
    assert_grounded(session);
}

#[test]
fn the_official_client_investigates_by_the_usual_configuration() {
    let dir = tempdir().unwrap();
    let config = dir.path().join("mcp.json");
    let program = tool("ingero-mcp");
    let session = |folder: &str| -> Value {
        // Relative paths count from where the client is.
        let entry = json!({"command": program, "args": [folder]});
        fs::write(&config, json!({"mcpServers": {"ingero": entry}}).to_string()).unwrap();
        let out = run(&mut investigate(&[config.to_str().unwrap(), "ingero"]), LIMIT).success();
        serde_json::from_str(&out.stdout).unwrap()
    };
    assert_whole_session(&session("investigations/h200-dataloader/run.igt"));

    // The public DataLoader database: a sample, whose stacks and totals are known and whose states are not.
    let sampled = session("investigations/pytorch-dataloader-starvation");
    assert_whole_session(&sampled);
    let answer = |tool: &str| {
        let answers = sampled["answers"].as_array().unwrap();
        answers.iter().find(|a| a["tool"] == tool).map(|a| a["text"].as_str().unwrap().to_owned()).unwrap()
    };
    for (tool, needle) in [
        ("get_capture_health", "a SAMPLE of the events only"),
        ("get_trace_stats", "p50 unknown"),
        ("get_timeline", "of the rest no state is known"),
        ("get_per_process_breakdown", "page allocations 1,173,407"),
        ("get_stacks", "cublasLtMatmul"),
    ] {
        assert!(answer(tool).contains(needle), "{tool}: {}", answer(tool));
    }
}

/// A session as it went over the wire. UPDATE_TRANSCRIPT=1 records it anew: its requests stay, what was answered changes.
#[test]
fn a_recorded_session_goes_as_it_went() {
    let path = root().join("tests/assistant/transcript.jsonl");
    let recorded = fs::read_to_string(&path).unwrap();
    let mut raw = McpServer::start(&["investigations/h200-fight"]);
    let mut played = String::new();
    let mut due = Vec::new();
    for line in recorded.lines() {
        let message: Value = serde_json::from_str(line).unwrap();
        let Some(sent) = message.get("client") else { continue };
        raw.send(sent.to_string().as_bytes());
        played += &format!("{}\n", json!({"client": sent}));
        if sent.get("id").is_some() {
            let mut answer = raw.next();
            assert_eq!(answer["id"], sent["id"]);
            if let Some(server) = answer.pointer_mut("/result/serverInfo/version") {
                *server = json!("of this build");
            }
            due.push(answer.clone());
            played += &format!("{}\n", json!({"server": answer}));
        }
    }
    assert!(due.len() >= 8, "{}", due.len());
    raw.end();
    if std::env::var_os("UPDATE_TRANSCRIPT").is_some() {
        fs::write(&path, &played).unwrap();
    }
    let pairs = played.lines().zip(fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect::<Vec<_>>());
    for (number, (new, old)) in (1..).zip(pairs) {
        assert_eq!(new, old, "line {number} of {}", path.display());
    }
}

/// A moment or a piece of evidence is told with the call that shows it: each of them is one that can be made.
#[test]
fn every_call_that_an_answer_tells_can_be_made() {
    let mut raw = McpServer::start(&["investigations"]);
    raw.hello();
    for recording in ["h200-fight/run.igt", "h200-workers/run.igt", "h200-dataloader/run.igt"] {
        let told = raw.call("get_causal_chains", json!({"recording": recording}));
        let text = told["content"][0]["text"].as_str().unwrap();
        let mut calls = 0;
        for call in text.lines().filter_map(|line| line.split_once("get_timeline tid=")).map(|(_, call)| call) {
            let [tid, from, to] = call.split(' ').collect::<Vec<_>>()[..] else { panic!("{call}") };
            let (tid, from, to) = (tid.parse::<u32>().unwrap(), &from["from=".len()..], &to["to=".len()..]);
            let shown = raw.call("get_timeline", json!({"recording": recording, "tid": tid, "from": from, "to": to}));
            assert!(!shown["content"][0]["text"].as_str().unwrap().is_empty(), "{call}");
            calls += 1;
        }
        assert!(calls > 5, "{recording}: {text}");
    }
    raw.end();
}

#[test]
fn a_problem_says_what_to_call_instead() {
    let mut raw = McpServer::start(&["investigations"]);
    raw.hello();
    for (tool, arguments, needle) in [
        ("get_trace_stats", json!({}), "h200-fight/run.igt"),
        ("get_trace_stats", json!({"recording": "none.igt"}), "no recording is called \"none.igt\""),
        (
            "get_trace_stats",
            json!({"recording": "h200-fight/run.igt", "from": "soon"}),
            "cannot read the time \"soon\"",
        ),
        ("get_trace_stats", json!({"recording": "h200-fight/run.igt", "from": "99s"}), "the range is empty"),
        (
            "get_causal_chains",
            json!({"recording": "h200-fight/run.igt", "severity": "bad"}),
            "there are LOW, MEDIUM, HIGH",
        ),
        (
            "get_per_process_breakdown",
            json!({"recording": "h200-fight/run.igt", "pid": 1}),
            "get_per_process_breakdown lists",
        ),
        ("get_timeline", json!({"recording": "h200-fight/run.igt"}), "give tid, pid or cpu"),
        ("get_timeline", json!({"recording": "h200-fight/run.igt", "tid": 999_999}), "get_per_process_breakdown lists"),
        ("get_timeline", json!({"recording": "h200-fight/run.igt", "cpu": 99}), "they are 0 to 15"),
        ("get_timeline", json!({"recording": "h200-fight/run.igt", "thread": 5}), "no argument \"thread\""),
        (
            "run_sql",
            json!({"recording": "h200-fight/run.igt", "sql": "SELECT nothing FROM calls"}),
            "call run_sql without sql",
        ),
    ] {
        let problem = raw.problem(tool, arguments);
        assert!(problem.contains(needle), "{problem:?} lacks {needle:?}");
    }
    // A folder with one recording says which; a path does.
    for name in ["h200-fight", "investigations/h200-fight/run.igt", "h200-fight/run"] {
        let health = raw.call("get_capture_health", json!({"recording": name}));
        assert_eq!(health["structuredContent"]["health"]["recording"], "h200-fight/run.igt", "{name}: {health}");
    }
    let prompt = json!({"jsonrpc": "2.0", "id": 2, "method": "prompts/get", "params": {"name": "investigate",
        "arguments": {"recording": "none"}}});
    let problem = raw.ask(&prompt)["error"]["message"].to_string();
    assert!(
        problem.contains("give one of these as recording: "),
        "whoever types the prompt cannot call a tool: {problem}"
    );

    let listed = raw.call("get_capture_health", json!({}));
    assert!(listed["structuredContent"]["recordings"].as_array().unwrap().len() >= 3, "{listed}");
    assert_eq!(listed["structuredContent"]["health"], json!(null));
    let stacks = raw.call("get_stacks", json!({"recording": "h200-fight/run.igt"}));
    assert!(stacks["content"][0]["text"].as_str().unwrap().contains("Call get_timeline instead"), "{stacks}");
    raw.end();
}

#[test]
fn what_it_cannot_serve_is_refused_at_the_start() {
    let dir = tempdir().unwrap();
    let put = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (token, short, no_key) = (put("token", "0123456789abcdef"), put("short", "abc"), put("no-key", "x"));
    let [cert, key, other, other_key] = ["a.pem", "a.key", "b.pem", "b.key"].map(|name| put(name, ""));
    make_certificate(&cert, &key);
    make_certificate(&other, &other_key);
    let fight = root().join("investigations/h200-fight/run.igt").display().to_string();
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    for (args, needle) in [
        (vec!["nowhere.igt"], "nowhere.igt: No such file"),
        (vec![empty.to_str().unwrap()], "no recording (.igt)"),
        (vec![], "<RECORDING>"),
        (vec!["--http", "0.0.0.0:0", &fight], "needs a token"),
        (vec!["--http", "[::]:0", &fight], "needs a token"),
        (vec!["--http", "everywhere", &fight], "give an address and a port"),
        (vec!["--http", "0.0.0.0:0", "--token-file", &short, &fight], "at least 16 characters"),
        (vec!["--token-file", &token, &fight], "--http"),
        (vec!["--http", "0", "--tls-cert", &token, "--tls-key", &no_key, &fight], "certificate"),
        (vec!["--http", "0", "--tls-cert", &cert, "--tls-key", &no_key, &fight], "PEM, without a passphrase"),
        (vec!["--http", "0", "--tls-cert", &cert, "--tls-key", &other_key, &fight], "do not fit"),
        (vec!["--time-limit", "soon", &fight], "cannot read the length of time"),
    ] {
        let mut command = Command::new(tool("ingero-mcp"));
        let run = bad_input(command.env_remove("INGERO_MCP_TOKEN").args(&args));
        assert!(run.stderr.contains(needle), "{args:?}: {:?} lacks {needle:?}", run.stderr);
    }
}

/// A server on HTTP, and its port.
fn serve(args: &[&str], token: Option<&str>) -> (Running, String, String) {
    let mut command = Command::new(tool("ingero-mcp"));
    command.current_dir(root()).args(args).args(["investigations/h200-fight", "investigations/h200-dataloader"]);
    match token {
        Some(token) => command.env("INGERO_MCP_TOKEN", token),
        None => command.env_remove("INGERO_MCP_TOKEN"),
    };
    let mut server = Running::start(&mut command);
    let url = loop {
        if let Some(line) =
            server.stderr_so_far().lines().find_map(|l| l.split("listening on ").nth(1).map(str::to_owned))
        {
            break line;
        }
        assert!(server.is_running(), "{}", server.stderr_so_far());
        std::thread::sleep(Duration::from_millis(20));
    };
    let port = url.trim_end_matches("/mcp").rsplit(':').next().unwrap().to_owned();
    (server, url, port)
}

/// Sends one request as it is, and returns status and body.
fn post(port: &str, headers: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let (accept, len) = ("application/json, text/event-stream", body.len());
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nAccept: {accept}\r\n\
         Connection: close\r\n{headers}Content-Length: {len}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned())
}

#[test]
fn http_serves_whoever_shows_the_token() {
    const TOKEN: &str = "a-token-of-some-length";
    let (server, url, port) = serve(&["--http", "127.0.0.1:0"], Some(TOKEN));
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    for wrong in ["", "Authorization: Bearer a-token-of-some-lengtH\r\n", "Authorization: Basic YTpi\r\n"] {
        assert_eq!(post(&port, wrong, list).0, 401, "{wrong}");
    }
    let right = format!("Authorization: Bearer {TOKEN}\r\n");
    let (status, body) = post(&port, &right, list);
    assert_eq!(status, 200, "{body}");
    let listed: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 7);

    // A page in a browser, another name for this machine, what is no message.
    assert_eq!(post(&port, &format!("{right}Origin: http://evil.example\r\n"), list).0, 403);
    let (status, body) = post(&port, &right, "{\"jsonrpc\":");
    assert_eq!((status, body.contains("-32700")), (400, true), "{body}");
    let (status, body) = post(&port, &right, r#"{"jsonrpc":"2.0","id":3,"method":"no/such"}"#);
    assert!(body.contains("-32601"), "{status} {body}");
    assert_eq!(post(&port, &right, &"x".repeat((4 << 20) + 10)).0, 413);
    // Whoever says another name of this machine was sent here by a page that means to read what is here.
    let mut rebound = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    rebound.set_read_timeout(Some(LIMIT)).unwrap();
    write!(
        rebound,
        "POST /mcp HTTP/1.1\r\nHost: evil.example:{port}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n{right}Content-Length: {}\r\n\r\n{list}",
        list.len()
    )
    .unwrap();
    let mut head = [0; 12];
    rebound.read_exact(&mut head).unwrap();
    assert_eq!(String::from_utf8_lossy(&head), "HTTP/1.1 403");

    let mut python = investigate(&[&url, "-", "h200-fight"]);
    let out = run(python.env("INGERO_MCP_TOKEN", TOKEN), LIMIT).success();
    assert_grounded(&serde_json::from_str(&out.stdout).unwrap());
    server.interrupt();
    assert_eq!(server.wait(LIMIT).code(), 0);
}

/// Clients that say half of what they want and then nothing.
#[test]
fn slow_clients_hold_nobody_up() {
    let (server, _, port) = serve(&["--http", "127.0.0.1:0"], None);
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let slow = |n: usize| {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        let rest = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: 100\r\n\r\n{";
        let head = format!("POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{rest}");
        stream.write_all(["", "POST /mcp HT", &head][n % 3].as_bytes()).unwrap();
        stream
    };
    let slow: Vec<TcpStream> = (0..150).map(slow).collect();
    let begun = Instant::now();
    for _ in 0..3 {
        assert_eq!(post(&port, "", list).0, 200);
    }
    // The first of them would be given up after ten seconds.
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    drop(slow);
    server.interrupt();
    assert_eq!(server.wait(LIMIT).code(), 0);
}

#[test]
fn https_serves_with_the_certificate_that_it_is_given() {
    let dir = tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    make_certificate(&at("cert.pem"), &at("key.pem"));
    let tls = ["--http", "127.0.0.1:0", "--tls-cert", &at("cert.pem"), "--tls-key", &at("key.pem")];
    let (server, url, port) = serve(&tls, None);
    assert!(url.starts_with("https://"), "{url}");
    let mut python = investigate(&[&url, "-", "h200-fight"]);
    let out = run(python.env_remove("INGERO_MCP_TOKEN").env("SSL_CERT_FILE", at("cert.pem")), LIMIT).success();
    assert_grounded(&serde_json::from_str(&out.stdout).unwrap());
    // Who does not speak TLS is not answered.
    let mut plain = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    plain.write_all(b"POST /mcp HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&answer));
    server.interrupt();
    assert_eq!(server.wait(LIMIT).code(), 0);
}

fn make_certificate(cert: &str, key: &str) {
    let mut python = assistant_python();
    drop(run(python.args(["-c", MAKE_CERTIFICATE, cert, key]), LIMIT).success());
}

/// A certificate for 127.0.0.1 that signs itself.
const MAKE_CERTIFICATE: &str = r#"
import datetime, ipaddress, sys
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
key = ec.generate_private_key(ec.SECP256R1())
name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
now = datetime.datetime.now(datetime.timezone.utc)
cert = (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=1))
    .not_valid_after(now + datetime.timedelta(days=2))
    .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
    .add_extension(x509.BasicConstraints(ca=True, path_length=None), True).sign(key, hashes.SHA256()))
open(sys.argv[1], "wb").write(cert.public_bytes(serialization.Encoding.PEM))
open(sys.argv[2], "wb").write(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
"#;
