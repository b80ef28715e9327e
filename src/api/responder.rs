//! How a handler responds. A [`Responder`] is consumed, and only that yields a [`Sent`], which every handler
//! returns: so a request gets exactly one response, and the status that was chosen is the one that is sent.

use crate::exec::Flow;
use crate::http::response::{Response, ResponseHead, Stream};
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

/// The sending side of a connection during one exchange. The server implements it; it keeps errors to itself,
/// since a handler has no use for them.
pub trait Transmit {
    /// Sends a complete response.
    fn send(&mut self, response: Response);

    /// Sends a part of the body, all of it, and before the first part the head that this function makes. It
    /// never blocks: bytes that the connection does not take now are pending. An empty part sends the head
    /// alone.
    ///
    /// # Errors
    /// The client has disconnected.
    fn push(&mut self, head: fn() -> ResponseHead, part: &[u8]) -> io::Result<()>;

    /// Sends as much of the pending bytes as the connection takes now.
    ///
    /// # Errors
    /// The client has disconnected.
    fn flush(&mut self) -> io::Result<()>;

    fn has_pending(&self) -> bool;

    /// Sends the rest of the body, and its end.
    fn finish(&mut self, rest: &dyn Stream);

    /// The socket, to poll it.
    fn connection(&self) -> BorrowedFd<'_>;
}

/// The obligation to respond.
#[must_use]
pub struct Responder<'a>(&'a mut dyn Transmit);

impl fmt::Debug for Responder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Responder")
    }
}

/// Proof that a response was sent, or that the connection failed while it was.
#[must_use]
#[derive(Debug)]
pub struct Sent(());

impl<'a> Responder<'a> {
    pub fn new(transmit: &'a mut dyn Transmit) -> Self {
        Self(transmit)
    }

    pub fn send(self, response: Response) -> Sent {
        self.0.send(response);
        Sent(())
    }

    /// For handlers that return early with an error response.
    pub fn send_either(self, result: Result<Response, Response>) -> Sent {
        self.send(result.unwrap_or_else(|refusal| refusal))
    }

    /// A response whose body is produced while it is sent, with this head. Nothing is sent before the first
    /// [`push`](BodyWriter::push).
    pub fn stream(self, head: fn() -> ResponseHead) -> BodyWriter<'a> {
        BodyWriter { transmit: self.0, head, has_begun: false }
    }
}

/// A response body that is being sent.
#[must_use]
pub struct BodyWriter<'a> {
    transmit: &'a mut dyn Transmit,
    head: fn() -> ResponseHead,
    has_begun: bool,
}

impl fmt::Debug for BodyWriter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyWriter").field("has_begun", &self.has_begun).finish_non_exhaustive()
    }
}

impl<'a> BodyWriter<'a> {
    /// Sends a part without blocking. An empty part sends the head alone.
    pub fn push(&mut self, part: &[u8]) -> Flow {
        self.has_begun = true;
        let pushed = self.transmit.push(self.head, part);
        self.flow(&pushed)
    }

    /// Sends pending bytes.
    pub fn flush(&mut self) -> Flow {
        let flushed = self.transmit.flush();
        self.flow(&flushed)
    }

    fn flow(&self, result: &io::Result<()>) -> Flow {
        match result {
            Err(_) => Flow::Disconnected,
            Ok(()) if self.has_pending() => Flow::Pause,
            Ok(()) => Flow::Continue,
        }
    }

    pub fn has_pending(&self) -> bool {
        self.transmit.has_pending()
    }

    /// Whether the status has been sent.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    pub fn connection(&self) -> BorrowedFd<'_> {
        self.transmit.connection()
    }

    /// Sends the rest of the body, and its end.
    pub fn finish(self, rest: &dyn Stream) -> Sent {
        self.transmit.finish(rest);
        Sent(())
    }

    /// The responder again, if nothing has been sent, for a response with another head.
    ///
    /// # Errors
    /// The body has begun.
    pub fn into_responder(self) -> Result<Responder<'a>, Self> {
        if self.has_begun { Err(self) } else { Ok(Responder(self.transmit)) }
    }
}
