//! One connection's life: read a request, answer it, keep or close, and why.
//!
//! What was not understood, or not read to its end, closes the connection: no byte of one request is ever taken for the
//! beginning of another.

use super::Limits;
use super::exchange::Exchange;
use super::wire::{Fault, HEAD_READ_BYTES, Pace, Rest, Wire};
use crate::app::{App, reply};
use crate::deadline::Deadline;
use crate::http::Method;
use crate::http::head::{self, Connection as Persistence, Head, Version};
use crate::http::response::{Payload, Response};
use crate::log;
use std::fmt;
use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A connection, between requests or within one.
#[derive(Debug)]
pub(super) struct Connection {
    wire: Wire,
    /// What has arrived and is not read yet; no memory while nothing has.
    input: Vec<u8>,
    /// When the head began to arrive that has not arrived yet.
    begun: Option<Instant>,
}

/// What becomes of a connection when its worker leaves it.
pub(super) enum Next {
    Idle(Connection),
    Closed(CloseReason),
}

/// Why a connection was closed.
#[derive(Debug)]
pub(super) enum CloseReason {
    /// The client asked for it, or speaks HTTP/1.0.
    Asked,
    /// The peer closed it between two requests.
    PeerClosed,
    /// A request could not be understood.
    Refused,
    /// A body was not read to its end.
    BodyLeft,
    ServerStopping,
    /// It was answered in passing.
    NoThread,
    Fault(Fault),
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => f.write_str("the client asked for it"),
            Self::PeerClosed => f.write_str("the peer closed it"),
            Self::Refused => f.write_str("a request was refused"),
            Self::BodyLeft => f.write_str("a body was not read to its end"),
            Self::ServerStopping => f.write_str("the server is stopping"),
            Self::NoThread => f.write_str("no thread was free"),
            Self::Fault(fault) => fault.fmt(f),
        }
    }
}

impl Connection {
    pub(super) fn new(stream: TcpStream, peer: SocketAddr) -> io::Result<Self> {
        Ok(Self { wire: Wire::new(stream, peer)?, input: Vec::new(), begun: None })
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.wire.descriptor()
    }

    /// How long it may wait without a thread.
    pub(super) fn patience(&self, limits: &Limits) -> Deadline {
        match self.begun {
            Some(begun) => Deadline::after(begun, limits.head),
            None => Deadline::within(limits.idle),
        }
    }

    /// Whether somebody waits for an answer to what has arrived, so that it can not be closed in silence.
    pub(super) fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// Answers requests for as long as they come one after the other.
    pub(super) fn serve(mut self, app: &App, limits: &Limits, stopping: &AtomicBool) -> Next {
        // It was given to a worker because there is something to read. Later there is not, most of the time.
        let mut looks_first = false;
        loop {
            let head = match self.read_head(app, limits, looks_first) {
                Ok(Some(head)) => head,
                Ok(None) if stopping.load(Ordering::SeqCst) => {
                    return Next::Closed(CloseReason::ServerStopping);
                }
                Ok(None) => {
                    self.input.shrink_to_fit();
                    return Next::Idle(self);
                }
                Err(Unread::Closed(reason)) => return Next::Closed(reason),
                Err(Unread::Refused(response)) => return self.refuse(&response, limits),
            };
            if let Some((reason, rest)) = self.answer(&head, app, limits, stopping) {
                self.wire.close(rest);
                return Next::Closed(reason);
            }
            looks_first = true;
        }
    }

    /// Answers without waiting for anything, for when no thread is there to do better, and closes: health is told as
    /// always, everything else is asked to come again. A head that has not arrived yet is waited for elsewhere.
    pub(super) fn serve_at_once(mut self, app: &App, limits: &Limits) -> Next {
        match self.wire.fill(&mut self.input, HEAD_READ_BYTES, Deadline::within(Duration::ZERO)) {
            Ok(_) | Err(Fault::Late) => {}
            Err(Fault::Ended) => return Next::Closed(CloseReason::PeerClosed),
            Err(fault) => return Next::Closed(CloseReason::Fault(fault)),
        }
        let (response, method) = match head::parse(&self.input, &app.limits.http) {
            Ok(None) if !self.input.is_empty() && self.is_late(limits) => (reply::late(), Method::Other),
            Ok(None) => return Next::Idle(self),
            Ok(Some((head, _))) => (app.respond_at_once(&head), head.method),
            Err(error) => (reply::refused(&error), Method::Other),
        };
        let mut bytes = response.encode_head(Version::Http11, Persistence::Close);
        if let Payload::Bytes(body) = &response.payload
            && response.has_body(method)
        {
            bytes.extend_from_slice(body);
        }
        let written = self.wire.write_now(&[IoSlice::new(&bytes)]);
        self.wire.close(Rest::NotAwaited);
        Next::Closed(match written {
            Ok(_) => CloseReason::NoThread,
            Err(error) => CloseReason::Fault(error.into()),
        })
    }

    /// Reads a head. `None`: it has not arrived, and is better waited for without a thread. However slowly it comes, the
    /// time it has counts from its first byte.
    fn read_head(&mut self, app: &App, limits: &Limits, looks_first: bool) -> Result<Option<Head>, Unread> {
        let linger = Deadline::within(limits.linger);
        loop {
            if !self.input.is_empty() {
                if let Some((head, length)) = head::parse(&self.input, &app.limits.http)? {
                    self.input.drain(..length);
                    self.begun = None;
                    return Ok(Some(head));
                }
                if self.is_late(limits) {
                    return Err(Unread::Refused(reply::late()));
                }
            }
            if looks_first && !self.wire.is_readable_by(linger).map_err(Fault::from)? {
                return Ok(None);
            }
            match self.wire.fill(&mut self.input, HEAD_READ_BYTES, linger) {
                Ok(_) => {}
                Err(Fault::Late) => return Ok(None),
                Err(Fault::Ended) if self.input.is_empty() => {
                    return Err(Unread::Closed(CloseReason::PeerClosed));
                }
                Err(Fault::Ended) => return Err(Unread::Refused(reply::cut_off())),
                Err(fault) => return Err(fault.into()),
            }
        }
    }

    /// Whether a head that has begun to arrive (it has from now on, if it had not) took too long.
    fn is_late(&mut self, limits: &Limits) -> bool {
        let begun = *self.begun.get_or_insert_with(Instant::now);
        Deadline::after(begun, limits.head).has_passed()
    }

    /// Answers a request. Says why and how the connection must be closed, if it must.
    fn answer(
        &mut self,
        head: &Head,
        app: &App,
        limits: &Limits,
        stopping: &AtomicBool,
    ) -> Option<(CloseReason, Rest)> {
        let received = Instant::now();
        let mut exchange = Exchange::new(&self.wire, head, &mut self.input, limits, app);
        let response = app.respond(head, &mut exchange, received);
        let ending = if !exchange.is_read() {
            Some((CloseReason::BodyLeft, Rest::Unread))
        } else if head.connection == Persistence::Close {
            Some((CloseReason::Asked, Rest::Nothing))
        } else if stopping.load(Ordering::SeqCst) {
            Some((CloseReason::ServerStopping, Rest::Nothing))
        } else {
            None
        };
        let persistence = if ending.is_some() { Persistence::Close } else { Persistence::KeepAlive };
        let written = exchange.write(&response, persistence);
        let must_close = exchange.is_ended_by_closing();
        exchange.finish();
        let path = String::from_utf8_lossy(&head.target.path);
        let milliseconds = received.elapsed().as_millis();
        log::debug(format_args!("{:?} {path} {} in {milliseconds} ms", head.method, response.status));
        match written {
            Err(fault) => Some((CloseReason::Fault(fault), Rest::Nothing)),
            Ok(()) if must_close => Some((CloseReason::Asked, Rest::Nothing)),
            Ok(()) => ending,
        }
    }

    /// Answers what can not be understood.
    fn refuse(self, response: &Response, limits: &Limits) -> Next {
        let head = response.encode_head(Version::Http11, Persistence::Close);
        let body: &[u8] = if let Payload::Bytes(bytes) = &response.payload { bytes } else { &[] };
        log::debug(format_args!("refused a request with {}", response.status));
        let reason = match self.wire.write([&head, body], &mut Pace::new(limits)) {
            Ok(()) => CloseReason::Refused,
            Err(fault) => CloseReason::Fault(fault),
        };
        self.wire.close(Rest::Unread);
        Next::Closed(reason)
    }
}

/// Why no head was read.
enum Unread {
    Closed(CloseReason),
    Refused(Response),
}

impl From<Fault> for Unread {
    fn from(fault: Fault) -> Self {
        Self::Closed(CloseReason::Fault(fault))
    }
}

impl From<crate::http::Error> for Unread {
    fn from(error: crate::http::Error) -> Self {
        Self::Refused(reply::refused(&error))
    }
}
