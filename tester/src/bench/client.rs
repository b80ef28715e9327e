//! One connection to the server, on which the same requests are made repeatedly.
//!
//! It parses responses as strictly as [`http`], but since its own cost is part of the measurement, requests
//! are prepared in advance and responses are read into reused buffers.

use std::io::{self, BufReader, Write};
use std::str;
use std::time::Duration;

use crate::escape::escaped;
use crate::http::{self, Deadline, Error, Framing, Response, Server, TimedStream};
use crate::response::{Outcome, Stop, fail};

/// For responses of a few hundred bytes.
pub(super) const SMALL_BUFFER_BYTES: usize = 8 << 10;

pub(super) struct BenchClient {
    reader: BufReader<TimedStream>,
    /// The time limit for one exchange.
    timeout: Duration,
    line: Vec<u8>,
    body: Vec<u8>,
    /// The last body that was checked; equal bytes need no second check.
    checked: Vec<u8>,
}

pub(super) struct Head {
    pub(super) status: u16,
    framing: Framing,
}

impl BenchClient {
    pub(super) fn connect(server: &Server, timeout: Duration, buffer_bytes: usize) -> Result<Self, Stop> {
        let stream = server
            .stream(Deadline::after(timeout))
            .map_err(|error| fail(b"", "a connection", error.to_string().as_bytes()))?;
        let reader = BufReader::with_capacity(buffer_bytes, stream);
        Ok(Self { reader, timeout, line: Vec::new(), body: Vec::new(), checked: Vec::new() })
    }

    /// One `/execute` whose command must exit with 0 before its deadline.
    pub(super) fn run(&mut self, request: &[u8]) -> Result<(), Stop> {
        let status = self.exchange(request).map_err(|error| no_response(request, &error))?;
        if status == 200 && self.body == self.checked {
            return Ok(());
        }
        let response = self.last_response(status);
        match Outcome::read(&response) {
            Ok(outcome) if outcome.exit_code == 0 && !outcome.timed_out => {
                self.checked.clone_from(&self.body);
                Ok(())
            }
            _ => Err(fail(request, "status 200 and \"exit_code\":0", &response.show())),
        }
    }

    /// Any request whose response must have status 200.
    pub(super) fn expect_ok(&mut self, request: &[u8]) -> Result<(), Stop> {
        match self.exchange(request) {
            Ok(200) => Ok(()),
            Ok(status) => Err(fail(request, "status 200", &self.last_response(status).show())),
            Err(error) => Err(no_response(request, &error)),
        }
    }

    fn exchange(&mut self, request: &[u8]) -> Result<u16, Error> {
        self.restart_deadline();
        self.send(request)?;
        self.read_response()
    }

    /// The time limit of the next exchange starts now.
    pub(super) fn restart_deadline(&mut self) {
        self.reader.get_mut().deadline = Deadline::after(self.timeout);
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.reader.get_mut().write_all(bytes).map_err(Error::Send)
    }

    /// Returns the status and stores the body in `self.body`.
    fn read_response(&mut self) -> Result<u16, Error> {
        let head = self.head()?;
        self.body.clear();
        http::pieces(&mut self.reader, head.framing, |piece| {
            self.body.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(head.status)
    }

    /// Ends an exchange whose request was sent in pieces. If the server refused it early, the response has
    /// the reason.
    pub(super) fn finish(&mut self, sent: Result<(), Error>, request: &[u8]) -> Result<(), Stop> {
        match (sent, self.read_response()) {
            (Ok(()), Ok(200)) => Ok(()),
            (_, Ok(status)) => Err(fail(request, "status 200", &self.last_response(status).show())),
            (Err(error), Err(_)) | (Ok(()), Err(error)) => Err(no_response(request, &error)),
        }
    }

    /// The response just read, without its headers, for a check or a report.
    fn last_response(&self, status: u16) -> Response {
        Response { status, headers: Vec::new(), body: self.body.clone() }
    }

    pub(super) fn head(&mut self) -> Result<Head, Error> {
        let status = http::status(self.next_line()?)?;
        let mut framing = Framing::Close;
        loop {
            let line = self.next_line()?;
            match line.split_once(':') {
                Some((name, value)) => framing.apply(name, value.trim())?,
                None if line.is_empty() => return Ok(Head { status, framing }),
                None => return Err(http::malformed("header", line)),
            }
        }
    }

    fn next_line(&mut self) -> Result<&str, Error> {
        http::line_into(&mut self.reader, &mut self.line)?;
        str::from_utf8(&self.line).map_err(|_| Error::Malformed(format!("line {}", escaped(&self.line))))
    }

    /// Passes a body to `sink` without storing it.
    pub(super) fn pieces(&mut self, head: &Head, mut sink: impl FnMut(&[u8])) -> Result<(), Error> {
        http::pieces(&mut self.reader, head.framing, |piece| {
            sink(piece);
            Ok(())
        })
    }

    /// Whether the server still keeps this idle connection open.
    pub(super) fn is_open(&self) -> bool {
        let stream = &self.reader.get_ref().stream;
        let peeked = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
        peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

pub(super) fn no_response(request: &[u8], error: &Error) -> Stop {
    fail(request, "a response", error.to_string().as_bytes())
}
