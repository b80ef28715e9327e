//! `GET /`, `GET /list/{path}`, `GET /exists/{path}`: what can be said without opening a file.

use super::{App, reply};
use crate::api::{self, Text};
use crate::files::{self, EntryKind, RelPath};
use crate::http::response::{Response, Stream};
use std::io;

pub(super) fn health() -> Response {
    reply::ok(api::to_json(&api::Health))
}

impl App {
    pub(super) fn list(&self, path: &[u8]) -> Result<Response, Response> {
        let list = || files::list(&self.root, &RelPath::parse(path)?);
        let entries = list().map_err(|error| reply::not_listed(&error))?;
        let estimated_bytes = entries.len() * ENTRY_BYTES;
        Ok(reply::json_made(Listing(entries), estimated_bytes))
    }

    pub(super) fn exists(&self, path: &[u8]) -> Result<Response, Response> {
        let exists = || files::exists(&self.root, &RelPath::parse(path)?);
        let exists = exists().map_err(|error| reply::not_looked_up(&error))?;
        Ok(reply::ok(api::to_json(&api::Exists { path: Text(vec![path]), exists })))
    }
}

/// What one entry comes to, with a name of ordinary length.
const ENTRY_BYTES: usize = 100;

/// The entries of a directory, to be written as JSON.
#[derive(Debug)]
struct Listing(Vec<files::Entry>);

impl Stream for Listing {
    fn write_to(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let items = self.0.iter().map(|entry| api::Entry {
            name: Text(vec![&entry.name]),
            size_bytes: entry.size,
            is_directory: entry.kind == EntryKind::Directory,
            modified: entry.modified.epoch_seconds(),
        });
        api::write_json(&api::array(items), out)
    }
}
