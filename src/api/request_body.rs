//! How a handler reads the body of its request: it has to be opened first, which checks its size and, if the
//! client waits for that, asks for it (`Expect: 100-continue`). A handler that does not open it refuses it:
//! the connection is then closed after the response.

use crate::http;
use std::{fmt, io};

/// The receiving side of a connection during one exchange. The server implements it.
pub trait Receive {
    /// Prepares to read a body of at most this size.
    ///
    /// # Errors
    /// The announced length exceeds the limit, or the connection failed.
    fn open(&mut self, limit_bytes: u64) -> Result<(), BodyError>;

    /// The next part: all received bytes, or none at the end.
    ///
    /// # Errors
    /// See [`BodyError`].
    fn next_part(&mut self) -> Result<&[u8], BodyError>;
}

/// A body that has not been opened.
pub struct RequestBody<'a> {
    receive: &'a mut dyn Receive,
    limit_bytes: u64,
}

impl fmt::Debug for RequestBody<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestBody").field("limit_bytes", &self.limit_bytes).finish_non_exhaustive()
    }
}

/// Why a body cannot be read.
#[derive(Debug)]
pub enum BodyError {
    /// Invalid framing, or too large.
    Refused(http::Error),
    TimedOut,
    /// The connection was closed or failed within the body.
    Disconnected(io::Error),
}

impl From<http::Error> for BodyError {
    fn from(error: http::Error) -> Self {
        Self::Refused(error)
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(f),
            Self::TimedOut => f.write_str("timed out reading the request body"),
            Self::Disconnected(_) => f.write_str("connection closed while reading the request body"),
        }
    }
}

impl std::error::Error for BodyError {}

impl<'a> RequestBody<'a> {
    pub(super) fn new(receive: &'a mut dyn Receive, limit_bytes: u64) -> Self {
        Self { receive, limit_bytes }
    }

    /// # Errors
    /// The body is larger than its route allows, or the connection failed.
    pub fn open(self) -> Result<BodyReader<'a>, BodyError> {
        self.receive.open(self.limit_bytes)?;
        Ok(BodyReader(self.receive))
    }
}

/// A body that is being read.
pub struct BodyReader<'a>(&'a mut dyn Receive);

impl fmt::Debug for BodyReader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BodyReader")
    }
}

impl BodyReader<'_> {
    /// The next part; empty at the end.
    ///
    /// # Errors
    /// See [`BodyError`].
    pub fn next_part(&mut self) -> Result<&[u8], BodyError> {
        self.0.next_part()
    }

    /// All of it.
    ///
    /// # Errors
    /// See [`BodyError`].
    pub fn read_to_end(mut self) -> Result<Vec<u8>, BodyError> {
        let mut body = Vec::new();
        loop {
            match self.next_part()? {
                [] => return Ok(body),
                part => body.extend_from_slice(part),
            }
        }
    }

    /// Reads and discards all of it.
    ///
    /// # Errors
    /// See [`BodyError`].
    pub fn skip(mut self) -> Result<(), BodyError> {
        while !self.next_part()?.is_empty() {}
        Ok(())
    }
}
