//! One connection, and all that was said on it.

use std::time::Instant;

use crate::answer::{Exchange, Stop, Verdict, fail};
use crate::http::{Connection, Error, Method};
use crate::request::Request;

pub(crate) struct Talk {
    connection: Connection,
    host: String,
    sent: Vec<u8>,
    started: Instant,
}

impl Talk {
    pub(crate) fn on(connection: Connection, host: &str) -> Talk {
        Talk { connection, host: host.to_owned(), sent: Vec::new(), started: Instant::now() }
    }

    pub(crate) fn say(&mut self, bytes: &[u8]) -> Verdict {
        self.sent.extend_from_slice(bytes);
        self.connection
            .send(bytes)
            .or_else(|error| self.broken("a connection that takes the request", &error))
    }

    pub(crate) fn request(&mut self, request: Request) -> Verdict {
        let bytes = request.encode(&self.host);
        self.say(&bytes)
    }

    pub(crate) fn finish_sending(&mut self) -> Verdict {
        self.connection.finish_sending().or_else(|error| self.broken("an open connection", &error))
    }

    /// Any answer, an interim one (1xx) too.
    pub(crate) fn next_answer(&mut self, asked_with: Method) -> Result<Exchange, Stop> {
        match self.connection.response(asked_with) {
            Ok(response) => Ok(Exchange { sent: self.sent.clone(), response, took: self.started.elapsed() }),
            Err(error) => self.broken("an answer", &error),
        }
    }

    /// The final answer. A 100 nobody asked for is legal and means nothing (RFC 9110 section 15.2).
    pub(crate) fn answer(&mut self) -> Result<Exchange, Stop> {
        let first = self.next_answer(Method::Other)?;
        if first.response.status == 100 { self.next_answer(Method::Other) } else { Ok(first) }
    }

    /// The server closes the connection and sends nothing more.
    pub(crate) fn end(&mut self) -> Verdict {
        self.connection.end().or_else(|error| self.broken("the connection closed after that", &error))
    }

    fn broken<T>(&self, expected: &str, error: &Error) -> Result<T, Stop> {
        Err(fail(&self.sent, expected, error.to_string().as_bytes()))
    }
}
