//! The life of one connection: read a request, respond, keep or close, and why.
//!
//! A request that was invalid, or whose body was not read to its end, closes the connection: no byte of one
//! request is ever taken for the beginning of another.

use super::Limits;
use super::request_body::IncomingBody;
use super::responder::OutgoingResponse;
use super::wire::{Allowance, Fault, HEAD_READ_BYTES, UnreadInput, Wire};
use crate::api::{Sandbox, errors};
use crate::deadline::Deadline;
use crate::http::head::{self, Head, Persistence, Version};
use crate::http::response::{Payload, Response};
use crate::log;
use std::cell::Cell;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The state that all connections share.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) sandbox: Sandbox,
    pub(super) limits: Limits,
    pub(super) is_stopping: AtomicBool,
}

impl Context {
    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }
}

/// A connection, between requests or within one.
#[derive(Debug)]
pub(super) struct Connection {
    wire: Wire,
    /// Received bytes that have not been parsed.
    input: Vec<u8>,
    /// When the first byte of an incomplete head arrived.
    head_begun: Option<Instant>,
}

/// The state in which a worker leaves a connection.
pub(super) enum Next {
    Idle(Connection),
    Closed(CloseReason),
}

/// Why a connection was closed.
#[derive(Debug)]
pub(super) enum CloseReason {
    /// By the client, or by the rules of HTTP/1.0.
    Requested,
    /// The peer closed it between two requests.
    PeerClosed,
    /// A request was invalid.
    Refused,
    /// A body was not read to its end.
    UnreadBody,
    ShuttingDown,
    /// The accept thread responded, since there was no worker.
    NoWorker,
    Fault(Fault),
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requested => f.write_str("requested by the client"),
            Self::PeerClosed => f.write_str("closed by the peer"),
            Self::Refused => f.write_str("invalid request"),
            Self::UnreadBody => f.write_str("unread request body"),
            Self::ShuttingDown => f.write_str("server shutting down"),
            Self::NoWorker => f.write_str("no worker available"),
            Self::Fault(fault) => fault.fmt(f),
        }
    }
}

/// Whether a worker may assume that there is something to read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Readiness {
    /// poll(2) said so.
    Readable,
    /// Probably not: a response has just been sent.
    Unknown,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, peer: SocketAddr) -> io::Result<Self> {
        Ok(Self { wire: Wire::new(stream, peer)?, input: Vec::new(), head_begun: None })
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.wire.descriptor()
    }

    /// Until when it may stay without a thread.
    pub(super) fn idle_deadline(&self, limits: &Limits) -> Deadline {
        match self.head_begun {
            Some(begun) => Deadline::after(begun, limits.head),
            None => Deadline::within(limits.idle),
        }
    }

    /// Whether a part of a request has arrived, so that the client is owed a response.
    pub(super) fn has_begun(&self) -> bool {
        self.head_begun.is_some()
    }

    /// Serves requests for as long as they follow each other.
    pub(super) fn serve(mut self, context: &Context) -> Next {
        let mut readiness = Readiness::Readable;
        loop {
            let head = match self.read_head(context, readiness) {
                Ok(Some(head)) => head,
                Ok(None) if context.is_stopping() => return Next::Closed(CloseReason::ShuttingDown),
                Ok(None) => {
                    self.input.shrink_to_fit();
                    return Next::Idle(self);
                }
                Err(NoHead::Closed(reason)) => return Next::Closed(reason),
                Err(NoHead::Refused(response)) => return self.refuse(&response, &context.limits),
            };
            if let Some((reason, unread)) = self.exchange(&head, context) {
                self.wire.close(unread);
                return Next::Closed(reason);
            }
            readiness = Readiness::Unknown;
        }
    }

    /// Responds without waiting, for want of a worker, and closes: public routes as usual, everything else
    /// 503. A head that is incomplete is waited for without a thread.
    pub(super) fn serve_at_once(mut self, context: &Context) -> Next {
        match self.wire.fill(&mut self.input, HEAD_READ_BYTES, Deadline::within(Duration::ZERO)) {
            Ok(_) | Err(Fault::TimedOut) => {}
            Err(Fault::Closed) => return Next::Closed(CloseReason::PeerClosed),
            Err(fault) => return Next::Closed(CloseReason::Fault(fault)),
        }
        let no_wait = Limits { transfer: Duration::ZERO, ..context.limits };
        let written = match head::parse(&self.input, &context.sandbox.limits.http) {
            Ok(Some((head, _))) => self.respond_at_once(&head, context, &no_wait),
            Ok(None) if !self.is_head_late(&context.limits) => {
                self.note_input();
                return Next::Idle(self);
            }
            Ok(None) => self.write_refusal(&errors::head_timed_out(), &no_wait),
            Err(error) => self.write_refusal(&errors::refused(&error), &no_wait),
        };
        self.wire.close(UnreadInput::Ignored);
        Next::Closed(written.map_or_else(CloseReason::Fault, |()| CloseReason::NoWorker))
    }

    fn respond_at_once(&self, head: &Head, context: &Context, no_wait: &Limits) -> Result<(), Fault> {
        // The body is not read, so the connection must be closed.
        let is_unread = Cell::new(true);
        let is_stopping = &context.is_stopping;
        let mut outgoing = OutgoingResponse::new(&self.wire, head, no_wait, is_stopping, &is_unread);
        let _sent = context.sandbox.respond_at_once(head, &mut outgoing);
        match outgoing.finish() {
            (_, Some((CloseReason::Fault(fault), _))) => Err(fault),
            _ => Ok(()),
        }
    }

    /// Reads a head. `None` if it is incomplete and should be waited for without a thread. Its time limit
    /// counts from its first byte, however slowly it arrives.
    fn read_head(&mut self, context: &Context, readiness: Readiness) -> Result<Option<Head>, NoHead> {
        let deadline = Deadline::within(context.limits.keep_alive_wait);
        loop {
            if let Some((head, length)) = head::parse(&self.input, &context.sandbox.limits.http)? {
                self.input.drain(..length);
                self.head_begun = None;
                return Ok(Some(head));
            }
            self.note_input();
            if self.is_head_late(&context.limits) {
                return Err(NoHead::Refused(errors::head_timed_out()));
            }
            let must_wait = readiness == Readiness::Unknown;
            if must_wait && !self.wire.wait_readable(deadline).map_err(Fault::from)? {
                return Ok(None);
            }
            match self.wire.fill(&mut self.input, HEAD_READ_BYTES, deadline) {
                Ok(_) => {}
                Err(Fault::TimedOut) => return Ok(None),
                Err(Fault::Closed) if self.input.is_empty() => {
                    return Err(NoHead::Closed(CloseReason::PeerClosed));
                }
                Err(Fault::Closed) => return Err(NoHead::Refused(errors::head_truncated())),
                Err(fault) => return Err(fault.into()),
            }
        }
    }

    /// Starts the clock of a head with its first byte.
    fn note_input(&mut self) {
        if !self.input.is_empty() {
            self.head_begun.get_or_insert_with(Instant::now);
        }
    }

    fn is_head_late(&self, limits: &Limits) -> bool {
        self.head_begun.is_some_and(|begun| Deadline::after(begun, limits.head).has_passed())
    }

    /// Serves one request. Returns why and how the connection must be closed, if it must.
    fn exchange(&mut self, head: &Head, context: &Context) -> Option<(CloseReason, UnreadInput)> {
        let begun = Instant::now();
        let Context { sandbox, limits, is_stopping } = context;
        let is_unread = Cell::new(false);
        let http_limits = &sandbox.limits.http;
        let mut body = IncomingBody::new(&self.wire, head, &mut self.input, limits, http_limits, &is_unread);
        let mut response = OutgoingResponse::new(&self.wire, head, limits, is_stopping, &is_unread);
        let _sent = sandbox.respond(head, &mut body, &mut response);
        body.finish();
        let (status, close) = response.finish();
        log_request(head, status, begun);
        close
    }

    /// Refuses an invalid request and closes.
    fn refuse(self, response: &Response, limits: &Limits) -> Next {
        log::debug(format_args!("refused a request with {}", response.head.status));
        let written = self.write_refusal(response, limits);
        self.wire.close(UnreadInput::Expected);
        Next::Closed(written.map_or_else(CloseReason::Fault, |()| CloseReason::Refused))
    }

    fn write_refusal(&self, response: &Response, limits: &Limits) -> Result<(), Fault> {
        let head = response.encode_head(Version::Http11, Persistence::Close);
        let body: &[u8] = if let Payload::Bytes(bytes) = &response.payload { bytes } else { &[] };
        self.wire.write([&head, body], &mut Allowance::new(limits))
    }
}

fn log_request(head: &Head, status: Option<crate::http::status::Status>, begun: Instant) {
    let path = String::from_utf8_lossy(&head.target.path);
    let status = status.map_or(0, |status| status.number());
    let milliseconds = begun.elapsed().as_millis();
    log::debug(format_args!("{:?} {path} {status} in {milliseconds} ms", head.method));
}

/// Why no head was read.
enum NoHead {
    Closed(CloseReason),
    Refused(Response),
}

impl From<Fault> for NoHead {
    fn from(fault: Fault) -> Self {
        Self::Closed(CloseReason::Fault(fault))
    }
}

impl From<crate::http::Error> for NoHead {
    fn from(error: crate::http::Error) -> Self {
        Self::Refused(errors::refused(&error))
    }
}
