//! One connection to the server, on which the same requests are made again and again.
//!
//! It reads answers as strictly as [`http`], but its own work is part of what is measured: requests are prepared, and
//! what has been read goes into buffers that are kept.

use std::io::{BufReader, Write};
use std::str;
use std::time::Duration;

use crate::answer::{Outcome, Stop, fail};
use crate::http::{self, Deadline, Error, Framing, Response, Server, Timed};
use crate::report::escaped;

/// For answers of a few hundred bytes.
pub(super) const SMALL_BUFFER_BYTES: usize = 8 * 1024;

pub(super) struct Client {
    reader: BufReader<Timed>,
    /// How long one exchange may take.
    wait: Duration,
    line: Vec<u8>,
    body: Vec<u8>,
    /// The last body that was looked at and found good; the same bytes are good again.
    good: Vec<u8>,
}

pub(super) struct Head {
    pub(super) status: u16,
    framing: Framing,
}

impl Client {
    pub(super) fn connect(server: &Server, wait: Duration, buffer_bytes: usize) -> Result<Client, Stop> {
        let stream = server
            .stream(Deadline::after(wait))
            .map_err(|error| fail(b"", "a connection", error.to_string().as_bytes()))?;
        let reader = BufReader::with_capacity(buffer_bytes, stream);
        Ok(Client { reader, wait, line: Vec::new(), body: Vec::new(), good: Vec::new() })
    }

    /// One `/execute`, whose command must end with 0 and in time.
    pub(super) fn run(&mut self, request: &[u8]) -> Result<(), Stop> {
        let status = self.exchange(request).map_err(|error| broken(request, &error))?;
        if status == 200 && self.body == self.good {
            return Ok(());
        }
        let response = self.response(status);
        match Outcome::read(&response) {
            Ok(outcome) if outcome.exit_code == 0 && !outcome.timed_out => {
                self.good.clone_from(&self.body);
                Ok(())
            }
            _ => Err(fail(request, "status 200 and \"exit_code\":0", &response.show())),
        }
    }

    /// Any request that must be answered with 200.
    pub(super) fn ask(&mut self, request: &[u8]) -> Result<(), Stop> {
        match self.exchange(request) {
            Ok(200) => Ok(()),
            Ok(status) => Err(fail(request, "status 200", &self.response(status).show())),
            Err(error) => Err(broken(request, &error)),
        }
    }

    fn exchange(&mut self, request: &[u8]) -> Result<u16, Error> {
        self.begin();
        self.send(request)?;
        self.answer()
    }

    /// From here on the whole exchange has its time.
    pub(super) fn begin(&mut self) {
        self.reader.get_mut().deadline = Deadline::after(self.wait);
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.reader.get_mut().write_all(bytes).map_err(Error::Send)
    }

    /// Its body is in `self.body` afterwards.
    fn answer(&mut self) -> Result<u16, Error> {
        let head = self.head()?;
        self.body.clear();
        http::pieces(&mut self.reader, head.framing, |piece| {
            self.body.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(head.status)
    }

    /// The end of an exchange that was sent in parts. A server that refuses what is still being sent has said why.
    pub(super) fn finish(&mut self, sent: Result<(), Error>, request: &[u8]) -> Result<(), Stop> {
        match (sent, self.answer()) {
            (Ok(()), Ok(200)) => Ok(()),
            (_, Ok(status)) => Err(fail(request, "status 200", &self.response(status).show())),
            (Err(error), Err(_)) | (Ok(()), Err(error)) => Err(broken(request, &error)),
        }
    }

    /// What has just been read, for a person or for a closer look.
    fn response(&self, status: u16) -> Response {
        Response { status, headers: Vec::new(), body: self.body.clone() }
    }

    pub(super) fn head(&mut self) -> Result<Head, Error> {
        let status = http::status(self.next_line()?)?;
        let mut framing = Framing::Close;
        loop {
            let line = self.next_line()?;
            match line.split_once(':') {
                Some((name, value)) => framing.header(name, value.trim())?,
                None if line.is_empty() => return Ok(Head { status, framing }),
                None => return Err(http::malformed("header", line)),
            }
        }
    }

    fn next_line(&mut self) -> Result<&str, Error> {
        http::line_into(&mut self.reader, &mut self.line)?;
        str::from_utf8(&self.line).map_err(|_| Error::Malformed(format!("line {}", escaped(&self.line))))
    }

    /// A body that is not kept.
    pub(super) fn pieces(&mut self, head: &Head, mut sink: impl FnMut(&[u8])) -> Result<(), Error> {
        http::pieces(&mut self.reader, head.framing, |piece| {
            sink(piece);
            Ok(())
        })
    }

    /// Whether the server still holds this connection, on which nothing is outstanding.
    pub(super) fn is_open(&self) -> bool {
        let stream = &self.reader.get_ref().stream;
        let peeked = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
        peeked.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    }
}

pub(super) fn broken(request: &[u8], error: &Error) -> Stop {
    fail(request, "an answer", error.to_string().as_bytes())
}
