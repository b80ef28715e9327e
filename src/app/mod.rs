//! A request to a response: one match over [`Endpoint`].
//!
//! Each endpoint's file reads alike: parse, act, answer. What goes wrong leaves sideways as a finished response, made in
//! [`reply`], the only file that knows status codes and the sentences clients match on.

mod auth;
mod browse;
mod execute;
mod python;
pub mod reply;
mod transfer;

pub use crate::exec::Client;
pub use auth::Token;

use crate::deadline::seconds;
use crate::exec::Runner;
use crate::files::Root;
use crate::http;
use crate::http::head::Head;
use crate::http::response::Response;
use crate::route::{self, Endpoint};
use std::io;
use std::time::{Duration, Instant};

/// What a request may ask for.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How long a command may run, in seconds: finite and greater than 0.
    pub exec_timeout_seconds: f64,
    /// The size of a body with a command.
    pub command_bytes: u64,
    /// The size of a body with a file.
    pub upload_bytes: u64,
    pub http: http::Limits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            exec_timeout_seconds: 300.0,
            command_bytes: 8 << 20,
            upload_bytes: 16 << 30,
            http: http::Limits::default(),
        }
    }
}

/// A body where none means anything may still be there, up to this size.
const IGNORED_BODY_BYTES: u64 = 64 << 10;

/// The rest of a request as its connection gives it, and the way to whoever waits for the answer.
pub trait Incoming: Client {
    /// Makes the body ready to be read; asks for it if the client waits to be asked (`Expect: 100-continue`).
    ///
    /// # Errors
    /// It is announced larger than the limit.
    fn accept(&mut self, limit_bytes: u64) -> Result<(), BodyError>;

    /// The next part of the body, as large as what has arrived; empty at its end.
    ///
    /// # Errors
    /// Wrong framing, too large, too slow, or the connection is gone.
    fn read(&mut self) -> Result<&[u8], BodyError>;
}

/// Why a body can not be read on.
#[derive(Debug)]
pub enum BodyError {
    Refused(http::Error),
    Late,
    /// The connection ended within the body.
    Lost(io::Error),
}

impl From<http::Error> for BodyError {
    fn from(error: http::Error) -> Self {
        Self::Refused(error)
    }
}

impl std::fmt::Display for BodyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(f),
            Self::Late => f.write_str("the body did not arrive in time"),
            Self::Lost(error) => write!(f, "the connection ended within the body: {error}"),
        }
    }
}

impl std::error::Error for BodyError {}

/// What requests act on: one base directory, one way to run commands.
#[derive(Debug)]
pub struct App {
    pub root: Root,
    pub runner: Runner,
    pub limits: Limits,
    /// What every request but one for health must bring, if there is one.
    pub token: Option<Token>,
}

impl App {
    /// Answers one request. `received` is when its head was complete; a command's deadline counts from there.
    pub fn respond(&self, head: &Head, incoming: &mut dyn Incoming, received: Instant) -> Response {
        let answer = self.find(head).and_then(|(endpoint, path)| match endpoint {
            Endpoint::Execute => self.execute(head, incoming, received),
            Endpoint::Upload => self.upload(head, incoming),
            Endpoint::Health => skip_body(incoming).map(|()| browse::health()),
            Endpoint::Download => skip_body(incoming).and_then(|()| self.download(head, path)),
            Endpoint::List => skip_body(incoming).and_then(|()| self.list(path)),
            Endpoint::Exists => skip_body(incoming).and_then(|()| self.exists(path)),
        });
        answer.unwrap_or_else(|refusal| refusal)
    }

    /// The endpoint of a request that may have it. Health is for everybody; of all else, not even whether it is there is
    /// told to somebody without the token.
    fn find<'a>(&self, head: &'a Head) -> Result<(Endpoint, &'a [u8]), Response> {
        let found = route::find(head.method, &head.target.path);
        let is_open = matches!(found, Ok((Endpoint::Health, _)));
        if !is_open && self.token.as_ref().is_some_and(|token| !token.is_in(head)) {
            return Err(reply::unauthorized());
        }
        found.map_err(reply::no_route)
    }

    /// Answers what can be answered without waiting for anything; asks for everything else to come again.
    pub fn respond_at_once(&self, head: &Head) -> Response {
        match self.find(head) {
            Ok((Endpoint::Health, _)) => browse::health(),
            Ok(_) => reply::busy(),
            Err(refusal) => refusal,
        }
    }

    /// The time that a command gets: what the request asks for, and never more than the server allows.
    fn exec_timeout(&self, requested_seconds: Option<f64>) -> (f64, Duration) {
        let most = self.limits.exec_timeout_seconds;
        let number = requested_seconds.map_or(most, |requested| requested.min(most));
        // Both are greater than 0 by construction.
        (number, seconds(number).unwrap_or_default())
    }
}

/// Reads a body that means nothing here: one router sends every GET with a chunked, empty one.
fn skip_body(incoming: &mut dyn Incoming) -> Result<(), Response> {
    incoming.accept(IGNORED_BODY_BYTES).map_err(|error| reply::body_refused(&error))?;
    while !incoming.read().map_err(|error| reply::body_refused(&error))?.is_empty() {}
    Ok(())
}
