//! The protocol over HTTP, at `/mcp`: streamable HTTP without sessions, each request by itself.

use std::convert::Infallible;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use ingero_replay::program::say;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::assistant::Assistant;
use crate::lobby::{Guest, Lobby};
use crate::outlet::Outlet;
use crate::problem::Problem;
use crate::wire::{self, MAX_MESSAGE_BYTES, Refusal};

/// Connections at a time; where there are more, the one that has waited longest without a request is closed.
const MAX_CONNECTIONS: usize = 64;
/// Connections at a time that find no room and wait for it; the next ones are not looked at meanwhile.
const MAX_NEWCOMERS: usize = 64;
/// For so long they wait, and are then told to come again.
const ADMISSION: Duration = Duration::from_secs(2);
/// Time for a handshake, and for the head of a request.
const GREETING: Duration = Duration::from_secs(10);
/// Time for the body of a request.
const READING: Duration = Duration::from_secs(30);
/// Characters of a token at least: shorter ones can be tried out.
const MIN_TOKEN: usize = 16;

/// Where and how to listen.
pub struct Address {
    /// Address and port; port 0 is any free one.
    pub socket: SocketAddr,
    /// What clients have to show.
    pub token: Option<Token>,
    /// Certificate and key.
    pub tls: Option<TlsAcceptor>,
}

/// A secret that clients have to show.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Vec<u8>);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// A token from the text that holds it.
    ///
    /// # Errors
    /// When it is too short, or cannot stand in a header.
    pub fn new(text: &str) -> Result<Self, Problem> {
        let text = text.trim();
        if text.len() < MIN_TOKEN || !text.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(Problem::new(format!(
                "the token has to have at least {MIN_TOKEN} characters, ASCII and none of them a space; \
                 openssl rand -hex 32 makes one"
            )));
        }
        Ok(Self(text.as_bytes().to_vec()))
    }

    /// Compares all of it, whatever differs first.
    fn is(&self, shown: &[u8]) -> bool {
        let differs = self.0.iter().zip(shown).fold(0, |sum, (a, b)| sum | (a ^ b));
        self.0.len() == shown.len() && differs == 0
    }

    fn is_shown_by<B>(&self, request: &Request<B>) -> bool {
        let header = request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
        let (scheme, shown) = header.split_at_checked(b"Bearer ".len()).unwrap_or_default();
        scheme.eq_ignore_ascii_case(b"Bearer ") && self.is(shown.trim_ascii())
    }
}

/// TLS with a certificate chain and a key, both PEM.
///
/// # Errors
/// When one of them cannot be read, or they do not belong together.
pub fn tls(cert: &Path, key: &Path) -> Result<TlsAcceptor, Problem> {
    let chain = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|e| Problem::of(cert, format!("cannot read the certificate: {e}")))?;
    if chain.is_empty() {
        return Err(Problem::of(cert, "there is no certificate in it; it has to be PEM"));
    }
    let key_der = PrivateKeyDer::from_pem_file(key)
        .map_err(|e| Problem::of(key, format!("cannot read the key: {e}; it has to be PEM, without a passphrase")))?;
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key_der)
        .map_err(|e| Problem::of(cert, format!("the certificate and the key {} do not fit: {e}", key.display())))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Reads a token from a file.
///
/// # Errors
/// When it cannot be read, or is no token.
pub fn token_in(path: &Path) -> Result<Token, Problem> {
    let text = fs::read_to_string(path).map_err(|e| Problem::of(path, e))?;
    Token::new(&text).map_err(|e| Problem::of(path, e))
}

impl Address {
    /// Checks that nobody can ask who should not.
    ///
    /// # Errors
    /// When others than this machine could connect without a token.
    pub fn check(&self) -> Result<(), Problem> {
        if self.socket.ip().is_loopback() || self.token.is_some() {
            return Ok(());
        }
        Err(Problem::new(format!(
            "{} can be reached from other machines: that needs a token (--token-file, or INGERO_MCP_TOKEN); without one \
             listen on 127.0.0.1",
            self.socket
        )))
    }
}

/// Serves until the process ends.
///
/// # Errors
/// When the address is refused or cannot be listened on.
pub async fn serve(assistant: Assistant, address: Address) -> Result<(), Problem> {
    address.check()?;
    let failed = |e: io::Error| Problem::new(format!("cannot listen on {}: {e}", address.socket));
    let listener = TcpListener::bind(address.socket).await.map_err(failed)?;
    let socket = listener.local_addr().map_err(failed)?;
    let scheme = if address.tls.is_some() { "https" } else { "http" };
    say("ingero-mcp", &format!("listening on {scheme}://{socket}/mcp"));
    let is_local = socket.ip().is_loopback();
    if !is_local && address.tls.is_none() {
        say(
            "ingero-mcp",
            "the token and all answers go over the network unencrypted; --tls-cert and --tls-key change that",
        );
    }

    let mut config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .enforce_origin_validation();
    if !is_local {
        // A page in somebody's browser has no token, under whatever name it finds this server.
        config = config.disable_allowed_hosts();
    }
    let config = config.with_max_request_body_bytes(MAX_MESSAGE_BYTES);
    let service =
        StreamableHttpService::new(move || Ok(assistant.clone()), Arc::new(NeverSessionManager::default()), config);
    let door = Arc::new(Door { service, token: address.token });
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let newcomers = Arc::new(Semaphore::new(MAX_NEWCOMERS));
    let lobby = Arc::new(Lobby::default());
    loop {
        let (stream, _) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(_) => {
                // No descriptor is left, perhaps: others will close theirs.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        // Each of them is gone in a few seconds, served or not: those behind them wait in the system's queue.
        let Ok(newcomer) = newcomers.clone().acquire_owned().await else { return Ok(()) };
        let (door, tls, lobby, connections) = (door.clone(), address.tls.clone(), lobby.clone(), connections.clone());
        tokio::spawn(async move {
            let room = timeout(ADMISSION, admitted(&lobby, connections)).await;
            let Ok(room) = room else {
                // Who is sent away keeps its place among the newcomers until it is gone.
                match tls {
                    None => turn_away(stream).await,
                    Some(tls) => {
                        if let Ok(Ok(stream)) = timeout(ADMISSION, tls.accept(stream)).await {
                            turn_away(stream).await;
                        }
                    }
                }
                drop(newcomer);
                return;
            };
            drop(newcomer);
            let guest = Arc::new(Guest::new(lobby));
            let served = async {
                match tls {
                    None => door.answer(stream, &guest).await,
                    Some(tls) => {
                        if let Ok(Ok(stream)) = timeout(GREETING, tls.accept(stream)).await {
                            door.answer(stream, &guest).await;
                        }
                    }
                }
            };
            tokio::select! {
                () = served => {}
                () = guest.asked_to_leave() => {}
            }
            drop(room);
        });
    }
}

/// A place for a connection, as soon as there is one: whoever waits in another's way is shown out.
async fn admitted(lobby: &Lobby, connections: Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    if let Ok(room) = connections.clone().try_acquire_owned() {
        return Some(room);
    }
    // The place in the row is kept while it is looked for somebody who can leave.
    let mut room = std::pin::pin!(connections.acquire_owned());
    let mut asked = lobby.show_out();
    loop {
        tokio::select! {
            room = &mut room => return room.ok(),
            () = lobby.somebody_waits(), if !asked => asked = lobby.show_out(),
        }
    }
}

/// Tells a client that all connections are being served.
async fn turn_away(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    const TEXT: &str = "all connections are being served; try again in a moment\n";
    let head = "HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-type: text/plain";
    let told = async {
        stream.write_all(format!("{head}\r\ncontent-length: {}\r\n\r\n{TEXT}", TEXT.len()).as_bytes()).await?;
        stream.shutdown().await?;
        // A connection that is closed with its request unread is reset, and its answer with it.
        let mut rest = [0; 4096];
        while stream.read(&mut rest).await? > 0 {}
        io::Result::Ok(())
    };
    // Whether it was heard is the client's affair.
    let _ = timeout(ADMISSION, told).await;
}

/// Who is let in, and to what.
struct Door {
    service: StreamableHttpService<Assistant, NeverSessionManager>,
    token: Option<Token>,
}

type Body = http_body_util::combinators::BoxBody<Bytes, Infallible>;

impl Door {
    /// Answers the requests of one connection. What goes wrong with it is the client's loss alone.
    async fn answer(self: Arc<Self>, stream: impl AsyncRead + AsyncWrite + Unpin, guest: &Arc<Guest>) {
        let each = service_fn(|request| {
            let (door, guest) = (self.clone(), guest.clone());
            async move {
                let response = door.respond(request, &guest).await;
                guest.is_answered();
                Ok::<_, Infallible>(response)
            }
        });
        let mut http = hyper::server::conn::http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(GREETING).max_buf_size(64 << 10);
        drop(http.serve_connection(TokioIo::new(Outlet::new(stream, guest.clone())), each).await);
    }

    async fn respond(&self, request: Request<Incoming>, guest: &Guest) -> Response<Body> {
        if self.token.as_ref().is_some_and(|token| !token.is_shown_by(&request)) {
            let mut refused = plain(StatusCode::UNAUTHORIZED, "the bearer token is missing or wrong");
            refused.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return refused;
        }
        if request.uri().path() != "/mcp" {
            return plain(StatusCode::NOT_FOUND, "nothing is here; the protocol is at /mcp");
        }
        if request.method() != Method::POST {
            return self.service.handle(request).await;
        }
        let (head, body) = request.into_parts();
        let read = timeout(READING, Limited::new(body, MAX_MESSAGE_BYTES).collect()).await;
        let bytes = match read {
            Ok(Ok(read)) => read.to_bytes(),
            Ok(Err(e)) if e.is::<http_body_util::LengthLimitError>() => {
                return refused(StatusCode::PAYLOAD_TOO_LARGE, &Refusal::too_long());
            }
            _ => return plain(StatusCode::REQUEST_TIMEOUT, "the request did not come to its end"),
        };
        guest.is_served();
        match wire::admit(&bytes) {
            Err(refusal) => refused(StatusCode::BAD_REQUEST, &refusal),
            Ok(message) => {
                let known = serde_json::from_value::<rmcp::model::ClientJsonRpcMessage>(message.clone());
                if let (Err(e), true) = (known, wire::is_request(&message)) {
                    return refused(StatusCode::BAD_REQUEST, &Refusal::unfit(&message, &e));
                }
                self.service.handle(Request::from_parts(head, Full::new(Bytes::from(message.to_string())))).await
            }
        }
    }
}

fn plain(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from(format!("{text}\n"))).boxed());
    *response.status_mut() = status;
    response
}

fn refused(status: StatusCode, refusal: &Refusal) -> Response<Body> {
    let mut response = plain(status, &refusal.answer().to_string());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(socket: &str, token: Option<&str>) -> Address {
        Address { socket: socket.parse().unwrap(), token: token.map(|t| Token::new(t).unwrap()), tls: None }
    }

    #[test]
    fn other_machines_need_a_token() {
        for loopback in ["127.0.0.1:0", "127.8.8.8:80", "[::1]:0"] {
            assert!(address(loopback, None).check().is_ok(), "{loopback}");
        }
        for open in ["0.0.0.0:0", "[::]:0", "192.168.1.2:80"] {
            let problem = address(open, None).check().unwrap_err().to_string();
            assert!(problem.contains("needs a token"), "{problem}");
            assert!(address(open, Some("0123456789abcdef")).check().is_ok(), "{open}");
        }
    }

    #[test]
    fn a_token_is_compared_as_a_whole() {
        let token = Token::new(" 0123456789abcdef\n").unwrap();
        let shown = |header: &str| {
            let request = Request::builder().header(AUTHORIZATION, header).body(()).unwrap();
            token.is_shown_by(&request)
        };
        assert!(shown("Bearer 0123456789abcdef") && shown("bearer  0123456789abcdef"));
        for wrong in ["", "Bearer", "Bearer ", "Bearer 0123456789abcde", "Bearer 0123456789abcdefg", "0123456789abcdef"]
        {
            assert!(!shown(wrong), "{wrong}");
        }
        assert!(!token.is_shown_by(&Request::new(())));
        for short in ["", "secret", "0123456789 abcdef", "0123456789abcdé"] {
            assert!(Token::new(short).is_err(), "{short}");
        }
    }
}
