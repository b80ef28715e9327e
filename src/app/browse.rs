//! `GET /`, `GET /list/{path}`, `GET /exists/{path}`: what can be said without opening a file.

use super::{App, reply};
use crate::api::{self, Text};
use crate::files::{self, EntryKind, RelPath};
use crate::http::response::Response;

pub(super) fn health() -> Response {
    reply::json(200, api::to_json(&api::Health))
}

impl App {
    pub(super) fn list(&self, path: &[u8]) -> Result<Response, Response> {
        let list = || files::list(&self.root, &RelPath::parse(path)?);
        let entries = list().map_err(|error| reply::not_listed(&error))?;
        let items = entries.iter().map(|entry| api::Entry {
            name: Text(vec![&entry.name]),
            size_bytes: entry.size,
            is_directory: entry.kind == EntryKind::Directory,
            modified: entry.modified.epoch_seconds(),
        });
        Ok(reply::json(200, api::to_json(&api::array(items))))
    }

    pub(super) fn exists(&self, path: &[u8]) -> Result<Response, Response> {
        let exists = || files::exists(&self.root, &RelPath::parse(path)?);
        let exists = exists().map_err(|error| reply::not_looked_up(&error))?;
        Ok(reply::json(200, api::to_json(&api::Exists { path: Text(vec![path]), exists })))
    }
}
