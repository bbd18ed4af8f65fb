//! What can be typed, and what comes of it.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Parser;
use ingero_replay::parse_duration;
use ingero_replay::program::{Ending, say};
use rmcp::ServiceExt;
use tokio::signal::unix::{SignalKind, signal};

use crate::assistant::Assistant;
use crate::http::{self, Address, Token};
use crate::scratch;
use crate::shelf::Shelf;
use crate::stdio::Lines;
use crate::tools;

/// Answer an AI assistant's questions about recordings.
///
/// A server of the Model Context Protocol over stdin and stdout, for a client that starts it itself; with --http over
/// HTTP. It reads recordings (.igt) and databases of ingero (.db) and changes nothing.
#[derive(Debug, Parser)]
#[command(
    name = "ingero-mcp",
    version,
    max_term_width = 100,
    after_help = "Examples:
  ingero-mcp run.igt                        in a client's configuration:
      {\"mcpServers\": {\"ingero\": {\"command\": \"ingero-mcp\", \"args\": [\"run.igt\"]}}}
  ingero-mcp investigations                 all recordings in a folder and below
  ingero-mcp --http 127.0.0.1:8080 run.igt  at http://127.0.0.1:8080/mcp"
)]
pub struct Args {
    /// Recordings, and folders of recordings.
    #[arg(value_name = "RECORDING", required = true)]
    places: Vec<PathBuf>,
    /// Serve HTTP here (127.0.0.1:8080, or a port alone) in place of stdin and stdout. Addresses that other machines
    /// reach need a token.
    #[arg(long, value_name = "ADDRESS")]
    http: Option<String>,
    /// File with the bearer token that clients have to show. The environment's INGERO_MCP_TOKEN does the same.
    #[arg(long, value_name = "FILE", requires = "http")]
    token_file: Option<PathBuf>,
    /// Certificate chain (PEM): serve HTTPS.
    #[arg(long, value_name = "FILE", requires_all = ["http", "tls_key"])]
    tls_cert: Option<PathBuf>,
    /// Key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires_all = ["http", "tls_cert"])]
    tls_key: Option<PathBuf>,
    /// How long a tool may take before the assistant is told to ask again.
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    time_limit: String,
}

/// Environment variable that may hold the token.
const TOKEN: &str = "INGERO_MCP_TOKEN";
/// Threads that read recordings. Calls are limited apart from that.
const WORKERS: usize = 2;

/// How long the answers that are due are waited for once the client has closed its end. Whoever leaves wants none; whoever
/// pipes in a question has what is quick.
const LEFT: Duration = Duration::from_secs(2);

/// Serves until the client leaves, or a signal comes.
///
/// # Errors
/// What keeps it from serving.
pub fn run(args: Args) -> Result<Ending> {
    let time = Duration::from_nanos(parse_duration(&args.time_limit).context("--time-limit")?);
    if time.is_zero() {
        bail!("--time-limit {}: no tool can answer in no time", args.time_limit);
    }
    let address = args.http.as_deref().map(|http| address(&args, http)).transpose()?;
    let shelf = Shelf::new(args.places)?;
    scratch::sweep();
    tools::limit_memory().context("cannot limit the memory of SQLite")?;
    let assistant = Assistant::new(Arc::new(shelf), time);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()
        .context("cannot start")?;
    let ending = runtime.block_on(serve(assistant, address));
    // A thread may still read stdin, or a recording: neither is waited for.
    scratch::end();
    runtime.shutdown_background();
    ending.map(|()| Ending::Done)
}

fn address(args: &Args, http: &str) -> Result<Address> {
    let socket = match http.parse::<u16>() {
        Ok(port) => SocketAddr::new(IpAddr::from([127, 0, 0, 1]), port),
        Err(_) => http.replace("localhost", "127.0.0.1").parse().map_err(|_| {
            anyhow!("--http {http:?}: give an address and a port, such as 127.0.0.1:8080, or a port alone")
        })?,
    };
    let token = match (&args.token_file, std::env::var(TOKEN)) {
        (Some(file), _) => Some(http::token_in(file)?),
        (None, Ok(text)) => Some(Token::new(&text).context(TOKEN)?),
        (None, Err(std::env::VarError::NotPresent)) => None,
        (None, Err(e)) => return Err(anyhow!("{TOKEN}: {e}")),
    };
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(cert), Some(key)) => Some(http::tls(cert, key)?),
        _ => None,
    };
    let address = Address { socket, token, tls };
    address.check()?;
    Ok(address)
}

async fn serve(assistant: Assistant, address: Option<Address>) -> Result<()> {
    let listen = |kind| signal(kind).context("cannot listen for signals");
    let mut interrupt = listen(SignalKind::interrupt())?;
    let (mut terminate, mut hang_up) = (listen(SignalKind::terminate())?, listen(SignalKind::hangup())?);
    let work = async {
        match address {
            Some(address) => Ok(http::serve(assistant, address).await?),
            None => serve_stdio(assistant).await,
        }
    };
    tokio::select! {
        done = work => done,
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
        _ = hang_up.recv() => Ok(()),
    }
}

async fn serve_stdio(assistant: Assistant) -> Result<()> {
    let lines = Lines::new(tokio::io::stdin(), tokio::io::stdout(), LEFT);
    let over = lines.over();
    let running = match assistant.serve(lines).await {
        Ok(running) => running,
        // The client left before it said anything.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(e) => return Err(anyhow!("the client and this server do not understand each other: {e}")),
    };
    tokio::select! {
        ended = running.waiting() => {
            if let Err(e) = ended {
                say("ingero-mcp", &format!("ended early: {e}"));
            }
        }
        // What is still being worked on has nobody to answer to.
        () = over.notified() => {}
    }
    Ok(())
}
