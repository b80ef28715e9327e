//! The response to one request, written to the connection: in one write, or begun early and continued.

use super::Limits;
use super::chunks::{ChunkWriter, Framing};
use super::conn::CloseReason;
use super::wire::{Allowance, Fault, UnreadInput, Wire};
use crate::api::Transmit;
use crate::http::head::{Head, Persistence, Version};
use crate::http::response::{Payload, Response, ResponseHead, Stream};
use crate::http::status::Status;
use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// The sending side of one exchange.
pub(super) struct OutgoingResponse<'a> {
    wire: &'a Wire,
    head: &'a Head,
    limits: &'a Limits,
    is_stopping: &'a AtomicBool,
    /// Whether the end of the request's body has not been reached. Shared with the receiving side.
    is_unread: &'a Cell<bool>,
    /// Of the response, once it has been sent or begun.
    status: Option<Status>,
    /// Bytes that the connection has not taken yet.
    pending: VecDeque<u8>,
    /// How the exchange leaves the connection, once the response is complete.
    outcome: Option<Outcome>,
}

/// Why and how the connection must be closed: `None` if it can serve another request.
type Outcome = Result<Option<(CloseReason, UnreadInput)>, Fault>;

impl<'a> OutgoingResponse<'a> {
    pub(super) fn new(
        wire: &'a Wire,
        head: &'a Head,
        limits: &'a Limits,
        is_stopping: &'a AtomicBool,
        is_unread: &'a Cell<bool>,
    ) -> Self {
        let (status, pending, outcome) = (None, VecDeque::new(), None);
        Self { wire, head, limits, is_stopping, is_unread, status, pending, outcome }
    }

    /// The status that was sent, and why and how the connection must be closed, if it must.
    pub(super) fn finish(self) -> (Option<Status>, Option<(CloseReason, UnreadInput)>) {
        let close = match self.outcome {
            Some(Ok(close)) => close,
            Some(Err(fault)) => Some((CloseReason::Fault(fault), UnreadInput::Unexpected)),
            None => Some((CloseReason::Requested, UnreadInput::Unexpected)),
        };
        (self.status, close)
    }

    /// Whether the connection must be closed after the response.
    fn close(&self) -> Option<(CloseReason, UnreadInput)> {
        if self.is_unread.get() {
            Some((CloseReason::UnreadBody, UnreadInput::Expected))
        } else if self.head.persistence == Persistence::Close {
            Some((CloseReason::Requested, UnreadInput::Unexpected))
        } else if self.is_stopping.load(Ordering::SeqCst) {
            Some((CloseReason::ShuttingDown, UnreadInput::Unexpected))
        } else {
            None
        }
    }

    fn write(&self, response: &Response, persistence: Persistence) -> Result<(), Fault> {
        let mut allowance = Allowance::new(self.limits);
        let head = response.encode_head(self.head.version, persistence);
        if !response.has_body(self.head.method) {
            return self.wire.write([&head], &mut allowance);
        }
        match &response.payload {
            Payload::Empty => self.wire.write([&head], &mut allowance),
            Payload::Bytes(bytes) => self.wire.write([&head, bytes], &mut allowance),
            Payload::Stream(stream) => self.write_stream(head, stream.as_ref(), &mut allowance),
            Payload::File { file, offset, length } => {
                self.wire.write_file(&head, file, *offset, *length, &mut allowance)
            }
        }
    }

    /// Writes the rest of a body of unknown length, and before it these bytes.
    fn write_stream(
        &self,
        before: Vec<u8>,
        stream: &dyn Stream,
        allowance: &mut Allowance,
    ) -> Result<(), Fault> {
        let mut out = ChunkWriter::new(self.wire, allowance, self.framing(), before);
        match stream.write_to(&mut out) {
            Ok(()) => out.finish(),
            Err(error) => Err(out.fault.take().unwrap_or(Fault::Broken(error))),
        }
    }

    /// The bytes of a head without a length.
    fn begin(&mut self, head: &ResponseHead) -> Vec<u8> {
        self.status = Some(head.status);
        head.encode_early(self.head.version, self.head.persistence)
    }

    fn framing(&self) -> Framing {
        match self.head.version {
            Version::Http10 => Framing::UntilClose,
            Version::Http11 => Framing::Chunked,
        }
    }

    /// After a body of unknown length an HTTP/1.0 connection has to be closed.
    fn close_after_stream(&self) -> Option<(CloseReason, UnreadInput)> {
        match self.framing() {
            Framing::UntilClose => Some((CloseReason::Requested, UnreadInput::Unexpected)),
            Framing::Chunked => self.close(),
        }
    }
}

impl Transmit for OutgoingResponse<'_> {
    fn send(&mut self, response: Response) {
        let is_stream = matches!(response.payload, Payload::Stream(_)) && response.has_body(self.head.method);
        let close = if is_stream { self.close_after_stream() } else { self.close() };
        let persistence = if close.is_some() { Persistence::Close } else { Persistence::KeepAlive };
        self.status = Some(response.head.status);
        self.outcome = Some(self.write(&response, persistence).map(|()| close));
    }

    fn push(&mut self, head: fn() -> ResponseHead, part: &[u8]) -> io::Result<()> {
        let head = if self.status.is_none() { self.begin(&head()) } else { Vec::new() };
        let (before, after) = self.framing().frame(part.len());
        let pieces = [&head, before.as_bytes(), part, after];
        let mut sent = 0;
        if self.pending.is_empty() {
            sent = self.wire.write_now(&pieces.map(IoSlice::new))?;
        }
        for piece in pieces {
            self.pending.extend(piece.get(sent..).unwrap_or_default());
            sent = sent.saturating_sub(piece.len());
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let (front, back) = self.pending.as_slices();
        let sent = self.wire.write_now(&[IoSlice::new(front), IoSlice::new(back)])?;
        self.pending.drain(..sent);
        if self.pending.is_empty() {
            // The memory is not needed again soon.
            self.pending = VecDeque::new();
        }
        Ok(())
    }

    fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    fn finish(&mut self, rest: &dyn Stream) {
        let pending = std::mem::take(&mut self.pending).into();
        let written = self.write_stream(pending, rest, &mut Allowance::new(self.limits));
        self.outcome = Some(written.map(|()| self.close_after_stream()));
    }

    fn connection(&self) -> BorrowedFd<'_> {
        self.wire.descriptor()
    }
}
