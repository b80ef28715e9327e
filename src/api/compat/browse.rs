//! `GET /`, `GET /list/{path}`, `GET /exists/{path}`: responses without opening a file.

use super::super::{Request, RequestBody, Responder, Sandbox, Sent};
use super::{errors, wire};
use crate::files::{self, RelPath};
use crate::http::response::{Response, Stream};
use crate::json::write::ValueWriter;
use std::io;

pub(super) fn health(_: &Sandbox, _: &Request<'_>, _: RequestBody<'_>, responder: Responder<'_>) -> Sent {
    responder.send(errors::ok(wire::health))
}

pub(super) fn list(
    sandbox: &Sandbox,
    request: &Request<'_>,
    _: RequestBody<'_>,
    responder: Responder<'_>,
) -> Sent {
    responder.send_either(listing(sandbox, request.path))
}

fn listing(sandbox: &Sandbox, path: &[u8]) -> Result<Response, Response> {
    let list = || files::list(&sandbox.root, &RelPath::parse(path)?);
    let entries = list().map_err(|error| errors::not_listed(&error))?;
    let estimated_bytes = entries.len() * ENTRY_BYTES;
    Ok(errors::ok_streamed(Listing(entries), estimated_bytes))
}

/// The JSON of one entry with a name of ordinary length.
const ENTRY_BYTES: usize = 100;

/// The entries of a directory, to be written as JSON.
#[derive(Debug)]
struct Listing(Vec<files::Entry>);

impl Stream for Listing {
    fn write_to(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let mut array = ValueWriter::new(out).array()?;
        for entry in &self.0 {
            wire::entry(array.item()?, entry)?;
        }
        array.end()
    }
}

pub(super) fn exists(
    sandbox: &Sandbox,
    request: &Request<'_>,
    _: RequestBody<'_>,
    responder: Responder<'_>,
) -> Sent {
    let exists = || files::exists(&sandbox.root, &RelPath::parse(request.path)?);
    responder.send(match exists() {
        Ok(exists) => errors::ok(|value| wire::exists(value, request.path, exists)),
        Err(error) => errors::not_checked(&error),
    })
}
