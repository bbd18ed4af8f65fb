//! A connection whose client has to take what is written to it.
//!
//! Once its answer is written, a guest waits in the lobby for what it asks next. One that is slow to take its answer waits there too, so that
//! it is shown out where room is needed, and is not waited for without end in any case.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::lobby::Guest;

/// A client that takes longer than this for what is written may have to make room for others.
const SLOW: Duration = Duration::from_secs(1);
/// Time for taking an answer.
const WRITING: Duration = Duration::from_secs(30);

/// A stream, and whose it is.
pub(crate) struct Outlet<S> {
    stream: S,
    guest: Arc<Guest>,
    slow: Duration,
    writing: Duration,
    /// Since when nothing more could be written; none where all was.
    patience: Option<Patience>,
}

struct Patience {
    end: Pin<Box<Sleep>>,
    /// Whether the client has been slow already.
    slow: bool,
}

impl<S> Outlet<S> {
    pub(crate) fn new(stream: S, guest: Arc<Guest>) -> Self {
        Self { stream, guest, slow: SLOW, writing: WRITING, patience: None }
    }

    /// What is to be done while nothing can be written.
    fn is_full<T>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        let slow = self.slow;
        let patience = self.patience.get_or_insert_with(|| Patience { end: Box::pin(sleep(slow)), slow: false });
        ready!(patience.end.as_mut().poll(context));
        if !patience.slow {
            patience.slow = true;
            self.guest.waits();
            patience.end = Box::pin(sleep(self.writing.saturating_sub(slow)));
            ready!(patience.end.as_mut().poll(context));
        }
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not take its answer")))
    }

    fn written<T>(&mut self, done: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        match done {
            Poll::Pending => self.is_full(context),
            done => done,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Outlet<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Outlet<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(done, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.written(done, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_flush(context);
        if let Poll::Ready(Ok(())) = done {
            // Whoever writes here flushes when nothing is left to write.
            self.patience = None;
            self.guest.has_all();
        }
        self.written(done, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_shutdown(context);
        self.written(done, context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::timeout;

    use super::*;
    use crate::lobby::Lobby;

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
    }

    #[test]
    fn a_client_that_does_not_take_its_answer_is_not_waited_for() {
        run(async {
            let lobby = Arc::new(Lobby::default());
            let guest = Arc::new(Guest::new(lobby.clone()));
            guest.is_served();
            assert!(!lobby.show_out(), "it is being served");
            let (near, _far) = duplex(8);
            let (slow, writing) = (Duration::from_millis(20), Duration::from_millis(200));
            let mut outlet = Outlet { slow, writing, ..Outlet::new(near, guest.clone()) };
            let problem = timeout(Duration::from_secs(60), outlet.write_all(&[0; 64])).await.unwrap().unwrap_err();
            assert_eq!(problem.kind(), io::ErrorKind::TimedOut);
            assert!(lobby.show_out(), "it had to make room for others since it was slow");
        });
    }

    #[test]
    fn a_guest_waits_when_its_answer_is_written_and_not_before() {
        run(async {
            let lobby = Arc::new(Lobby::default());
            let guest = Arc::new(Guest::new(lobby.clone()));
            guest.is_served();
            let (near, mut far) = duplex(8);
            let mut outlet = Outlet::new(near, guest.clone());
            outlet.flush().await.unwrap();
            guest.is_answered();
            outlet.write_all(&[7; 8]).await.unwrap();
            assert!(!lobby.show_out(), "its answer could be lost");
            outlet.flush().await.unwrap();
            assert!(lobby.show_out());
            let mut read = [0; 8];
            far.read_exact(&mut read).await.unwrap();
            assert_eq!(read, [7; 8]);
        });
    }
}
