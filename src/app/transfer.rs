//! `POST /upload` and `GET /download/{path}`: a file in, a file out, neither ever held in memory.

use super::{App, Incoming, reply};
use crate::files::{self, OpenFile, RelPath, Replacement, Root};
use crate::http::Method;
use crate::http::date::http_date;
use crate::http::head::Head;
use crate::http::multipart::{Event, Parser, PartHead, boundary};
use crate::http::range::{Range, range};
use crate::http::response::{Payload, Response, content_disposition};

impl App {
    /// The part named `file` goes where its filename says. When there are several the last one counts, as in the
    /// reference; other parts are skipped. The file takes its place only when the whole body has been read.
    pub(super) fn upload(&self, head: &Head, incoming: &mut dyn Incoming) -> Result<Response, Response> {
        let content_type = head.headers.get("content-type").unwrap_or_default();
        let boundary = boundary(content_type).map_err(|error| reply::refused(&error))?;
        let mut form = Form {
            root: &self.root,
            parser: Parser::new(boundary, &self.limits.http),
            part: Part::Other,
            upload: None,
        };
        incoming.accept(self.limits.upload_bytes).map_err(|error| reply::body_refused(&error))?;
        loop {
            let input = incoming.read().map_err(|error| reply::body_refused(&error))?;
            if input.is_empty() {
                break;
            }
            form.take_in(input)?;
        }
        form.parser.finish().map_err(|error| reply::refused(&error))?;
        let Upload { name, replacement } =
            form.upload.ok_or_else(|| reply::unprocessable(&reply::no_file()))?;
        replacement.commit().map_err(|error| reply::not_uploaded(&error, &name))?;
        Ok(reply::uploaded(&name))
    }

    pub(super) fn download(&self, head: &Head, path: &[u8]) -> Result<Response, Response> {
        let open = || files::open(&self.root, &RelPath::parse(path)?);
        let file = open().map_err(|error| reply::not_downloaded(&error))?;
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        Ok(answer(head, file, name))
    }
}

/// A form that is being read.
struct Form<'a> {
    root: &'a Root,
    parser: Parser,
    part: Part,
    upload: Option<Upload>,
}

/// The part that is being read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    File,
    Other,
}

/// The file that the form has brought so far.
struct Upload {
    /// As the client wrote it.
    name: String,
    replacement: Replacement,
}

impl Form<'_> {
    fn take_in(&mut self, mut input: &[u8]) -> Result<(), Response> {
        while !input.is_empty() {
            let (consumed, event) = self.parser.step(input).map_err(|error| reply::refused(&error))?;
            match (event, &mut self.upload) {
                (Event::Part(head), _) => self.part = begin(self.root, head, &mut self.upload)?,
                (Event::Data(data), Some(upload)) if self.part == Part::File => upload.write_all(data)?,
                _ => {}
            }
            input = input.get(consumed..).unwrap_or_default();
        }
        Ok(())
    }
}

impl Upload {
    fn write_all(&mut self, data: &[u8]) -> Result<(), Response> {
        self.replacement.write_all(data).map_err(|error| reply::not_uploaded(&error, &self.name))
    }
}

/// Makes room for the file of a part that is one; an earlier one is given up.
fn begin(root: &Root, head: PartHead, upload: &mut Option<Upload>) -> Result<Part, Response> {
    let (Some(b"file"), Some(filename)) = (head.name.as_deref(), head.filename) else {
        return Ok(Part::Other);
    };
    let name = String::from_utf8_lossy(&filename).into_owned();
    let begin = || Replacement::begin(root, &RelPath::parse(&filename)?);
    let replacement = begin().map_err(|error| reply::not_uploaded(&error, &name))?;
    *upload = Some(Upload { name, replacement });
    Ok(Part::File)
}

/// The whole file, a part of it, or word that the client has it already (RFC 9110 sections 13 and 14).
fn answer(head: &Head, file: OpenFile, name: &[u8]) -> Response {
    let OpenFile { file, size, modified, identity } = file;
    let etag =
        format!("\"{:x}-{:x}-{:x}{:08x}\"", identity.inode, size, modified.seconds, modified.nanoseconds);
    let last_modified = http_date(modified.seconds);
    let is_same = |value: &[u8]| value == etag.as_bytes() || value == last_modified.as_bytes();
    let whole =
        head.method == Method::Head || head.headers.get("if-range").is_some_and(|value| !is_same(value));
    let wanted =
        head.headers.get("range").filter(|_| !whole).map_or(Range::Whole, |value| range(value, size));
    let response = if is_known(head, &etag, &last_modified) {
        reply::not_modified()
    } else {
        match wanted {
            Range::Whole => reply::whole(Payload::File { file, offset: 0, length: size }),
            Range::Part { offset, length } => {
                let end = offset + length - 1;
                reply::part(Payload::File { file, offset, length }, &format!("bytes {offset}-{end}/{size}"))
            }
            Range::Unsatisfiable => reply::no_such_part(&format!("bytes */{size}")),
        }
    };
    response
        .with("Accept-Ranges", "bytes")
        .with("ETag", etag)
        .with("Last-Modified", last_modified)
        .with("Content-Disposition", content_disposition(name))
}

/// Whether the client has this very file already. A date counts only when it is the one we gave, to the letter: then no
/// clock needs to be trusted.
fn is_known(head: &Head, etag: &str, last_modified: &str) -> bool {
    match (head.headers.get("if-none-match"), head.headers.get("if-modified-since")) {
        (Some(tags), _) => tags
            .split(|byte| *byte == b',')
            .map(<[u8]>::trim_ascii)
            .any(|tag| tag == b"*" || tag.strip_prefix(b"W/").unwrap_or(tag) == etag.as_bytes()),
        (None, Some(date)) => date == last_modified.as_bytes(),
        (None, None) => false,
    }
}
