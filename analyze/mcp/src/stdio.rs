//! The protocol over stdin and stdout: one message a line.

use std::collections::HashSet;
use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use ingero_replay::program::say;
use rmcp::RoleServer;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Serialize;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{Mutex, Notify};
use tokio::time::{Instant, timeout_at};

use crate::wire::{self, MAX_MESSAGE_BYTES, Refusal};

/// Reads messages from one stream and writes them to another.
pub struct Lines<R, W> {
    read: BufReader<R>,
    out: Arc<Out<W>>,
    line: Vec<u8>,
    /// Whether the line is longer than any message may be: its rest is passed over.
    too_long: bool,
    /// Whether a request has come yet. Nothing else can come first.
    begun: bool,
    /// An answer that is on its way out.
    answer: Option<Vec<u8>>,
    /// Requests whose answers are due.
    due: Arc<Due>,
    /// For how long they are waited for when nothing more comes in.
    patience: Duration,
    /// Until when, once nothing more comes in.
    end: Option<Instant>,
    /// Told once nothing more comes in and no answer is waited for any more.
    over: Arc<Notify>,
}

/// Where messages are written to, each whole.
struct Out<W> {
    to: Mutex<W>,
    /// Whether nothing more is to be said: answers that were given up would otherwise come or not, as it happens.
    is_closed: AtomicBool,
}

impl<W: AsyncWrite + Unpin> Out<W> {
    async fn put(&self, line: &[u8]) -> io::Result<()> {
        let mut to = self.to.lock().await;
        if self.is_closed.load(Ordering::Acquire) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        to.write_all(line).await?;
        to.flush().await
    }
}

/// Requests whose answers are due, by their ids.
#[derive(Default)]
struct Due {
    ids: std::sync::Mutex<HashSet<String>>,
    fewer: Notify,
}

impl Due {
    fn ids(&self) -> MutexGuard<'_, HashSet<String>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_settled(&self, id: &Value) {
        self.ids().remove(&id.to_string());
        self.fewer.notify_one();
    }

    /// Until none is due.
    async fn none(&self) {
        while !self.ids().is_empty() {
            self.fewer.notified().await;
        }
    }
}

impl<R: AsyncRead + Unpin, W> Lines<R, W> {
    /// Over two streams. Answers that are due when nothing more comes in are waited for, `patience` at most.
    pub fn new(read: R, write: W, patience: Duration) -> Self {
        let read = BufReader::new(read);
        let out = Arc::new(Out { to: Mutex::new(write), is_closed: AtomicBool::new(false) });
        let (line, due, over) = (Vec::new(), Arc::default(), Arc::default());
        Self { read, out, line, too_long: false, begun: false, answer: None, due, patience, end: None, over }
    }

    /// Is told when the conversation is over: who serves it may end then, whatever is still being worked on.
    pub fn over(&self) -> Arc<Notify> {
        self.over.clone()
    }

    /// Reads on until a line is whole, which the last one is without a line break too; false at the end of the stream.
    /// Whoever stops waiting for it loses nothing: what was read stays in `line`.
    async fn read_line(&mut self) -> io::Result<bool> {
        loop {
            let read = self.read.fill_buf().await?;
            if read.is_empty() {
                return Ok(self.too_long || !self.line.is_empty());
            }
            let (len, whole) = read.iter().position(|&b| b == b'\n').map_or((read.len(), false), |at| (at + 1, true));
            if self.line.len() + len > MAX_MESSAGE_BYTES {
                self.too_long = true;
                self.line.clear();
            } else if !self.too_long {
                self.line.extend_from_slice(read.get(..len).unwrap_or_default());
            }
            self.read.consume(len);
            if whole {
                return Ok(true);
            }
        }
    }

    /// The message in the line, if it is one; else an answer to it may be due.
    fn take(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        let taken = if std::mem::take(&mut self.too_long) {
            Err(Refusal::too_long())
        } else if self.line.trim_ascii().is_empty() {
            self.line.clear();
            return None;
        } else {
            wire::admit(&self.line)
        };
        self.line.clear();
        let taken = taken.and_then(|message| {
            let request = wire::is_request(&message);
            if !request && !self.begun {
                return Ok(None);
            }
            match serde_json::from_value(message.clone()) {
                Ok(typed) => {
                    self.begun |= request;
                    match message.get("method").and_then(Value::as_str) {
                        // What is not wanted any more is not answered.
                        Some("notifications/cancelled") => {
                            self.due.is_settled(message.pointer("/params/requestId").unwrap_or(&Value::Null));
                        }
                        Some(_) if request => drop(self.due.ids().insert(message["id"].to_string())),
                        _ => {}
                    }
                    Ok(Some(typed))
                }
                // To what wants no answer there is none.
                Err(_) if !request => Ok(None),
                Err(e) => Err(Refusal::unfit(&message, &e)),
            }
        });
        taken.unwrap_or_else(|refusal| {
            self.answer = Some(line_of(&refusal.answer()));
            None
        })
    }
}

fn line_of(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(&mut self, item: TxJsonRpcMessage<RoleServer>) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (out, due) = (self.out.clone(), self.due.clone());
        async move {
            let message = serde_json::to_value(&item).unwrap_or_default();
            let sent = out.put(&line_of(&message)).await;
            if message.get("method").is_none() {
                due.is_settled(message.get("id").unwrap_or(&Value::Null));
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if let Some(answer) = self.answer.take() {
                // By a task of its own: whoever stops waiting for the next message must not have it said twice, or in part.
                let out = self.out.clone();
                tokio::spawn(async move { out.put(&answer).await }).await.ok()?.ok()?;
            }
            if !self.read_line().await.ok()? {
                let end = *self.end.get_or_insert_with(|| Instant::now() + self.patience);
                if timeout_at(end, self.due.none()).await.is_err() {
                    self.out.is_closed.store(true, Ordering::Release);
                    say(
                        "ingero-mcp",
                        "the client has closed its end: work on the answers that are still due is given up; they need stdin to stay open",
                    );
                }
                self.over.notify_one();
                return None;
            }
            if let Some(message) = self.take() {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.out.to.lock().await.flush().await
    }
}
