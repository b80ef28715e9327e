//! One connection to the server. It records what was sent, for the report of a failure.

use std::time::Instant;

use crate::http::{Connection, Error, Method};
use crate::request::Request;
use crate::response::{Exchange, Stop, Verdict, fail};

pub(crate) struct Client {
    connection: Connection,
    host: String,
    sent: Vec<u8>,
    started: Instant,
}

impl Client {
    pub(crate) fn new(connection: Connection, host: &str) -> Self {
        Self { connection, host: host.to_owned(), sent: Vec::new(), started: Instant::now() }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> Verdict {
        self.sent.extend_from_slice(bytes);
        self.connection
            .send(bytes)
            .or_else(|error| self.failed("a connection that accepts the request", &error))
    }

    pub(crate) fn send_request(&mut self, request: Request) -> Verdict {
        let bytes = request.encode(&self.host);
        self.send(&bytes)
    }

    pub(crate) fn half_close(&mut self) -> Verdict {
        self.connection.half_close().or_else(|error| self.failed("an open connection", &error))
    }

    /// The next response, which may be an interim one (1xx).
    pub(crate) fn next_response(&mut self, method: Method) -> Result<Exchange, Stop> {
        match self.connection.response(method) {
            Ok(response) => {
                Ok(Exchange { sent: self.sent.clone(), response, elapsed: self.started.elapsed() })
            }
            Err(error) => self.failed("a response", &error),
        }
    }

    /// The final response. An unsolicited 100 is legal and is skipped (RFC 9110 section 15.2).
    pub(crate) fn response(&mut self) -> Result<Exchange, Stop> {
        let first = self.next_response(Method::Other)?;
        if first.response.status == 100 { self.next_response(Method::Other) } else { Ok(first) }
    }

    /// The server closes the connection and sends nothing more.
    pub(crate) fn expect_closed(&mut self) -> Verdict {
        self.connection.expect_closed().or_else(|error| self.failed("the connection to be closed", &error))
    }

    fn failed<T>(&self, expected: &str, error: &Error) -> Result<T, Stop> {
        Err(fail(&self.sent, expected, error.to_string().as_bytes()))
    }
}
