//! One request and its answer on one connection: the body as it is asked for, the answer in one write, or begun early.

use super::Limits;
use super::chunks::{ChunkWriter, Coding};
use super::wire::{BODY_READ_BYTES, Fault, Pace, Wire};
use crate::app::{App, BodyError, Client, Incoming, reply};
use crate::http;
use crate::http::body::Body;
use crate::http::head::{Connection as Persistence, Framing, Head, Version};
use crate::http::response::{CONTINUE, Payload, Response};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

/// What is known of the request while it is worked on.
pub(super) struct Exchange<'a> {
    wire: &'a Wire,
    head: &'a Head,
    limits: &'a Limits,
    http_limits: &'a http::Limits,
    /// What has arrived; the first `taken` bytes are done with.
    input: &'a mut Vec<u8>,
    taken: usize,
    body: Option<Body>,
    pace: Pace,
    answer: Answer,
    /// What was begun to be sent and the connection has not taken yet.
    unsent: VecDeque<u8>,
}

/// How far the answer is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    NotBegun,
    /// Its head has been sent, without a length.
    Begun,
}

impl<'a> Exchange<'a> {
    pub(super) fn new(
        wire: &'a Wire,
        head: &'a Head,
        input: &'a mut Vec<u8>,
        limits: &'a Limits,
        app: &'a App,
    ) -> Self {
        Self {
            wire,
            head,
            limits,
            http_limits: &app.limits.http,
            input,
            taken: 0,
            body: None,
            pace: Pace::new(limits),
            answer: Answer::NotBegun,
            unsent: VecDeque::new(),
        }
    }

    /// Whether all of the request has been read, so that what follows is the next one.
    pub(super) fn is_read(&self) -> bool {
        match &self.body {
            Some(body) => body.is_done(),
            None => matches!(self.head.framing, Framing::None | Framing::Length(0)),
        }
    }

    /// Sends the answer, or the rest of it.
    pub(super) fn write(&mut self, response: &Response, persistence: Persistence) -> Result<(), Fault> {
        let mut pace = Pace::new(self.limits);
        let head = match self.answer {
            Answer::NotBegun => response.encode_head(self.head.version, persistence),
            Answer::Begun => std::mem::take(&mut self.unsent).into(),
        };
        if !response.has_body(self.head.method) {
            return self.wire.write([&head], &mut pace);
        }
        match &response.payload {
            Payload::Bytes(bytes) if self.answer == Answer::NotBegun => {
                self.wire.write([&head, bytes], &mut pace)
            }
            Payload::Bytes(bytes) => self.write_stream(head, &mut pace, |out| out.write_all(bytes)),
            Payload::Stream(stream) => self.write_stream(head, &mut pace, |out| stream.write_to(out)),
            Payload::Empty => self.wire.write([&head], &mut pace),
            Payload::File { file, offset, length } => {
                self.wire.write_file(&head, file, *offset, *length, &mut pace)
            }
        }
    }

    /// A body without a length: chunked, or to an HTTP/1.0 client up to the end of the connection.
    fn write_stream(
        &mut self,
        head: Vec<u8>,
        pace: &mut Pace,
        write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
    ) -> Result<(), Fault> {
        self.answer = Answer::Begun;
        let mut out = ChunkWriter::new(self.wire, pace, self.coding(), head);
        match write(&mut out) {
            Ok(()) => out.finish(),
            Err(error) => Err(out.fault.take().unwrap_or(Fault::Broken(error))),
        }
    }

    fn coding(&self) -> Coding {
        match self.head.version {
            Version::Http10 => Coding::Plain,
            Version::Http11 => Coding::Chunked,
        }
    }

    /// Sends a part of the body, and the head before the first; keeps what the connection does not take now.
    fn send(&mut self, part: &[u8]) -> io::Result<()> {
        let head = match self.answer {
            Answer::NotBegun => {
                reply::executed_early().encode_early_head(self.head.version, self.head.connection)
            }
            Answer::Begun => Vec::new(),
        };
        self.answer = Answer::Begun;
        let (before, after) = self.coding().frame(part.len());
        let pieces = [&head, before.as_bytes(), part, after];
        let mut sent = 0;
        if self.unsent.is_empty() {
            sent = self.wire.write_now(&pieces.map(IoSlice::new))?;
        }
        for piece in pieces {
            let rest = piece.get(sent..).unwrap_or_default();
            sent = sent.saturating_sub(piece.len());
            self.unsent.extend(rest);
        }
        Ok(())
    }

    /// Whether only the end of the connection can tell the client where the answer ends.
    pub(super) fn is_ended_by_closing(&self) -> bool {
        self.answer == Answer::Begun && self.head.version == Version::Http10
    }

    /// Leaves in the input only what belongs to the next request.
    pub(super) fn finish(self) {
        self.input.drain(..self.taken.min(self.input.len()));
    }
}

impl Incoming for Exchange<'_> {
    fn accept(&mut self, limit_bytes: u64) -> Result<(), BodyError> {
        let body = Body::new(self.head.framing, limit_bytes, self.http_limits)?;
        // A client that has begun to send does not wait to be asked.
        let must_ask = self.head.expect_continue && self.input.is_empty() && !body.is_done();
        self.body = Some(body);
        self.pace = Pace::new(self.limits);
        if must_ask {
            self.wire.write([CONTINUE], &mut self.pace).map_err(lost)?;
        }
        Ok(())
    }

    fn read(&mut self) -> Result<&[u8], BodyError> {
        let Some(body) = &mut self.body else { return Ok(&[]) };
        let length = loop {
            if body.is_done() {
                return Ok(&[]);
            }
            let rest = self.input.get(self.taken..).unwrap_or_default();
            let decoded = body.decode(rest)?;
            let (consumed, length) = (decoded.consumed, decoded.data.len());
            self.taken += consumed;
            if length > 0 {
                break length;
            }
            if consumed == 0 {
                self.input.drain(..self.taken);
                self.taken = 0;
                let count =
                    self.wire.fill(self.input, BODY_READ_BYTES, self.pace.deadline()).map_err(lost)?;
                self.pace.passed(count);
            }
        };
        // The data is the end of what was consumed; before it there may be framing.
        Ok(self.input.get(self.taken - length..self.taken).unwrap_or_default())
    }
}

fn lost(fault: Fault) -> BodyError {
    match fault {
        Fault::Late => BodyError::Late,
        Fault::Ended => BodyError::Lost(io::ErrorKind::UnexpectedEof.into()),
        Fault::Broken(error) => BodyError::Lost(error),
    }
}

impl Client for Exchange<'_> {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.wire.descriptor())
    }

    fn nudge(&mut self) -> io::Result<()> {
        match self.answer {
            // What it has not taken yet tells as much.
            _ if self.is_behind() => Ok(()),
            Answer::NotBegun => self.send(b""),
            // White space before the JSON.
            Answer::Begun => self.send(b" "),
        }
    }

    fn take(&mut self, part: &[u8]) -> io::Result<()> {
        if part.is_empty() { Ok(()) } else { self.send(part) }
    }

    fn is_behind(&self) -> bool {
        !self.unsent.is_empty()
    }

    fn catch_up(&mut self) -> io::Result<()> {
        let (front, back) = self.unsent.as_slices();
        let sent = self.wire.write_now(&[IoSlice::new(front), IoSlice::new(back)])?;
        self.unsent.drain(..sent);
        if self.unsent.is_empty() {
            self.unsent = VecDeque::new();
        }
        Ok(())
    }
}
