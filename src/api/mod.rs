//! The protocols: each is a folder with a table of [`Route`]s, and an entry in `protocols!`. Protocols do not
//! know each other.
//!
//! A handler parses its request, acts, and responds. Errors return early as finished responses, which the
//! `errors` module of each protocol makes: nothing else chooses status codes and the sentences that clients
//! match on.

pub mod access;
pub mod errors;
mod request_body;
mod responder;
pub mod route;

pub use access::Token;
pub use request_body::{BodyError, BodyReader, Receive, RequestBody};
pub use responder::{BodyWriter, Responder, Sent, Transmit};
pub use route::{Access, Body, Route};

use crate::exec::Runner;
use crate::files::Root;
use crate::http;
use crate::http::head::Head;
use crate::http::response::Response;
use std::time::{Duration, Instant};

/// Declares the folders of the protocols and collects their tables.
macro_rules! protocols {
    ($($(#[$attribute:meta])* $name:ident),* $(,)?) => {
        $($(#[$attribute])* pub mod $name;)*

        const PROTOCOLS: &[&[Route]] = &[$($(#[$attribute])* $name::ROUTES),*];
    };
}

protocols! {
    compat,
}

/// Every route of every protocol.
pub fn routes() -> impl Iterator<Item = &'static Route> + Clone {
    PROTOCOLS.iter().copied().flatten()
}

/// Responds to one request.
pub type Handler = fn(&Sandbox, &Request<'_>, RequestBody<'_>, Responder<'_>) -> Sent;

/// A request whose head has been read.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub head: &'a Head,
    /// The part of the path that stands for `{path}` in the pattern of the route.
    pub path: &'a [u8],
    /// When the head was complete. The deadline of a command counts from here.
    pub received: Instant,
}

/// The state that requests act on.
#[derive(Debug)]
pub struct Sandbox {
    pub root: Root,
    pub runner: Runner,
    pub limits: Limits,
    /// Required by every route that is not public.
    pub token: Option<Token>,
}

/// Bounds for one request.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How long a command may run, in seconds: finite and greater than 0.
    pub exec_timeout_seconds: f64,
    /// The body of a request that runs a command.
    pub command_bytes: u64,
    /// The body of an upload.
    pub upload_bytes: u64,
    /// How much of each output stream of a command is kept: half from its beginning, half from its end.
    /// `None`: all of standard output, which is streamed; standard error is kept as by default.
    pub output_bytes: Option<usize>,
    /// How much standard output is buffered before the response is streamed.
    pub buffer_bytes: usize,
    /// The response to a command that runs for this long is begun before the command ends: otherwise a client
    /// or a router may give up waiting for the first byte and send the request again. Clients wait a second
    /// at least.
    pub commit_after: Duration,
    pub http: http::Limits,
}

/// The default of [`Limits::output_bytes`].
pub(crate) const DEFAULT_OUTPUT_BYTES: usize = 8 << 20;

impl Default for Limits {
    fn default() -> Self {
        Self {
            exec_timeout_seconds: 300.0,
            command_bytes: 8 << 20,
            upload_bytes: 16 << 30,
            output_bytes: Some(DEFAULT_OUTPUT_BYTES),
            buffer_bytes: 64 << 10,
            commit_after: Duration::from_millis(500),
            http: http::Limits::default(),
        }
    }
}

/// The size of a body that is ignored.
const IGNORED_BODY_BYTES: u64 = 64 << 10;

impl Sandbox {
    /// Responds to one request.
    pub fn respond(&self, head: &Head, receive: &mut dyn Receive, transmit: &mut dyn Transmit) -> Sent {
        let received = Instant::now();
        let responder = Responder::new(transmit);
        let (route, path) = match self.route(head) {
            Ok(found) => found,
            Err(refusal) => return responder.send(refusal),
        };
        let limit_bytes = match route.body {
            Body::Ignored => {
                let skipped = RequestBody::new(receive, IGNORED_BODY_BYTES).open().and_then(BodyReader::skip);
                if let Err(error) = skipped {
                    return responder.send(errors::body_refused(&error));
                }
                0
            }
            Body::Limit(limit) => limit(&self.limits),
        };
        let body = RequestBody::new(receive, limit_bytes);
        (route.handler)(self, &Request { head, path, received }, body, responder)
    }

    /// Responds without waiting, for want of a worker: public routes as usual, everything else 503.
    pub fn respond_at_once(&self, head: &Head, transmit: &mut dyn Transmit) -> Sent {
        let responder = Responder::new(transmit);
        match self.route(head) {
            Ok((route, path)) if route.access == Access::Public => {
                let request = Request { head, path, received: Instant::now() };
                (route.handler)(self, &request, RequestBody::new(&mut NoBody, 0), responder)
            }
            Ok(_) => responder.send(errors::busy()),
            Err(refusal) => responder.send(refusal),
        }
    }

    /// The route of a request that may use it. Without the token every path that is not public gets 401,
    /// known or not, so that routes cannot be probed.
    fn route<'h>(&self, head: &'h Head) -> Result<(&'static Route, &'h [u8]), Response> {
        let found = route::find(routes(), head.method, &head.target.path);
        let is_public = matches!(found, Ok((Route { access: Access::Public, .. }, _)));
        if !is_public && self.token.as_ref().is_some_and(|token| !token.is_in(head)) {
            return Err(errors::unauthorized());
        }
        found.map_err(errors::no_route)
    }
}

/// The body of a request that is not read.
struct NoBody;

impl Receive for NoBody {
    fn open(&mut self, _: u64) -> Result<(), BodyError> {
        Ok(())
    }

    fn next_part(&mut self) -> Result<&[u8], BodyError> {
        Ok(&[])
    }
}
