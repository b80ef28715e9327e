//! One request and its answer on one connection: the body as it is asked for, the answer in one write, or begun early.

use super::Limits;
use super::chunks::{ChunkWriter, Coding};
use super::wire::{Fault, Pace, Wire, Written};
use crate::app::{App, BodyError, Client, Incoming, reply};
use crate::http;
use crate::http::body::Body;
use crate::http::head::{Connection as Persistence, Framing, Head, Version};
use crate::http::response::{CONTINUE, Payload, Response};
use std::io;
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
        let (taken, pace) = (0, Pace::new(limits));
        let http_limits = &app.limits.http;
        Self { wire, head, limits, http_limits, input, taken, body: None, pace, answer: Answer::NotBegun }
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
        let mut head = Vec::new();
        if self.answer == Answer::NotBegun {
            head = response.encode_head(self.head.version, persistence);
        }
        if !response.has_body(self.head.method) {
            return self.wire.write(&[&head], &mut pace);
        }
        match &response.payload {
            Payload::Bytes(bytes) if self.answer == Answer::NotBegun => {
                self.wire.write(&[&head, bytes], &mut pace)
            }
            Payload::Bytes(bytes) => self.write_stream(head, &mut pace, |out| out.write_all(bytes)),
            Payload::Stream(stream) => self.write_stream(head, &mut pace, |out| stream.write_to(out)),
            Payload::Empty => self.wire.write(&[&head], &mut pace),
            Payload::File { file, offset, length } => {
                self.wire.write(&[&head], &mut pace)?;
                self.wire.write_file(file, *offset, *length, &mut pace)
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
        let coding = match self.head.version {
            Version::Http10 => Coding::Plain,
            Version::Http11 => Coding::Chunked,
        };
        let mut out = ChunkWriter::new(self.wire, pace, coding, head);
        match write(&mut out) {
            Ok(()) => out.finish(),
            Err(error) => Err(out.fault.take().unwrap_or(Fault::Broken(error))),
        }
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
            self.wire.write(&[CONTINUE], &mut self.pace).map_err(lost)?;
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
                let count = self.wire.fill(self.input, self.pace.deadline()).map_err(lost)?;
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
        let bytes = match (self.answer, self.head.version) {
            (Answer::NotBegun, version) => {
                reply::executed_early().encode_early_head(version, self.head.connection)
            }
            // White space before the JSON.
            (Answer::Begun, Version::Http11) => b"1\r\n \r\n".to_vec(),
            (Answer::Begun, Version::Http10) => b" ".to_vec(),
        };
        if self.wire.write_now(&bytes)? == Written::All {
            self.answer = Answer::Begun;
        }
        Ok(())
    }
}
