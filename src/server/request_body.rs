//! The body of a request, read from the connection as the handler asks for it.

use super::Limits;
use super::wire::{Allowance, BODY_READ_BYTES, Fault, Wire};
use crate::api::{BodyError, Receive};
use crate::http;
use crate::http::body::Body;
use crate::http::head::{Framing, Head};
use crate::http::response::CONTINUE;
use std::cell::Cell;
use std::io;

/// The receiving side of one exchange.
pub(super) struct IncomingBody<'a> {
    wire: &'a Wire,
    head: &'a Head,
    limits: &'a Limits,
    http_limits: &'a http::Limits,
    /// Received bytes; the first `consumed` of them have been read.
    input: &'a mut Vec<u8>,
    consumed: usize,
    body: Option<Body>,
    allowance: Allowance,
    /// Whether the end of the body has not been reached. Shared with the sending side.
    is_unread: &'a Cell<bool>,
}

impl<'a> IncomingBody<'a> {
    pub(super) fn new(
        wire: &'a Wire,
        head: &'a Head,
        input: &'a mut Vec<u8>,
        limits: &'a Limits,
        http_limits: &'a http::Limits,
        is_unread: &'a Cell<bool>,
    ) -> Self {
        is_unread.set(!matches!(head.framing, Framing::None | Framing::Length(0)));
        let allowance = Allowance::new(limits);
        Self { wire, head, limits, http_limits, input, consumed: 0, body: None, allowance, is_unread }
    }

    /// Reads more of the body into the input.
    fn fill(&mut self) -> Result<(), BodyError> {
        self.input.drain(..self.consumed);
        self.consumed = 0;
        let deadline = self.allowance.deadline();
        let count = self.wire.fill(self.input, BODY_READ_BYTES, deadline).map_err(body_error)?;
        self.allowance.add(count);
        Ok(())
    }

    /// Removes the body from the input, which leaves the bytes of the next request.
    pub(super) fn finish(self) {
        self.input.drain(..self.consumed.min(self.input.len()));
    }
}

impl Receive for IncomingBody<'_> {
    fn open(&mut self, limit_bytes: u64) -> Result<(), BodyError> {
        let body = Body::new(self.head.framing, limit_bytes, self.http_limits)?;
        // A client that has begun to send does not wait for the interim response.
        let must_continue = self.head.expect_continue && self.input.is_empty() && !body.is_done();
        self.is_unread.set(!body.is_done());
        self.body = Some(body);
        self.allowance = Allowance::new(self.limits);
        if must_continue {
            self.wire.write([CONTINUE], &mut self.allowance).map_err(body_error)?;
        }
        Ok(())
    }

    fn next_part(&mut self) -> Result<&[u8], BodyError> {
        let length = loop {
            let Some(body) = self.body.as_mut().filter(|body| !body.is_done()) else { return Ok(&[]) };
            let decoded = body.decode(self.input.get(self.consumed..).unwrap_or_default())?;
            let (consumed, length) = (decoded.consumed, decoded.data.len());
            self.is_unread.set(!body.is_done());
            self.consumed += consumed;
            if length > 0 {
                break length;
            }
            if consumed == 0 {
                self.fill()?;
            }
        };
        // The data is the end of what was consumed; framing may precede it.
        Ok(self.input.get(self.consumed - length..self.consumed).unwrap_or_default())
    }
}

fn body_error(fault: Fault) -> BodyError {
    match fault {
        Fault::TimedOut => BodyError::TimedOut,
        Fault::Closed => BodyError::Disconnected(io::ErrorKind::UnexpectedEof.into()),
        Fault::Broken(error) => BodyError::Disconnected(error),
    }
}
