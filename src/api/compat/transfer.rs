//! `POST /upload` and `GET /download/{path}`: files in and out, never held in memory.

use super::super::{Request, RequestBody, Responder, Sandbox, Sent};
use super::errors;
use crate::files::{self, OpenFile, RelPath, Replacement, Root};
use crate::http::Method;
use crate::http::date::http_date;
use crate::http::head::Head;
use crate::http::multipart::{Event, Parser, PartHead, boundary};
use crate::http::range::{Range, range};
use crate::http::response::{Payload, Response, content_disposition};

/// Writes the part named `file` to the path in its filename. If there are several the last one counts, as in
/// the reference; other parts are skipped. The file replaces its target only after the whole body has been
/// read.
pub(super) fn upload(
    sandbox: &Sandbox,
    request: &Request<'_>,
    body: RequestBody<'_>,
    responder: Responder<'_>,
) -> Sent {
    responder.send_either(receive(sandbox, request.head, body))
}

fn receive(sandbox: &Sandbox, head: &Head, body: RequestBody<'_>) -> Result<Response, Response> {
    let content_type = head.headers.get("content-type").unwrap_or_default();
    let boundary = boundary(content_type).map_err(|error| errors::form_refused(&error))?;
    let mut form = Form {
        root: &sandbox.root,
        parser: Parser::new(boundary, &sandbox.limits.http),
        part: Part::Other,
        upload: None,
    };
    let mut body = body.open().map_err(|error| errors::body_refused(&error))?;
    loop {
        match body.next_part().map_err(|error| errors::body_refused(&error))? {
            [] => break,
            input => form.read(input)?,
        }
    }
    form.parser.finish().map_err(|error| errors::form_refused(&error))?;
    let Upload { name, replacement } = form.upload.ok_or_else(errors::no_file)?;
    replacement.commit().map_err(|error| errors::not_uploaded(&error, &name))?;
    Ok(errors::uploaded(&name))
}

pub(super) fn download(
    sandbox: &Sandbox,
    request: &Request<'_>,
    _: RequestBody<'_>,
    responder: Responder<'_>,
) -> Sent {
    let open = || files::open(&sandbox.root, &RelPath::parse(request.path)?);
    responder.send(match open() {
        Ok(file) => {
            let name = request.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            file_response(request.head, file, name)
        }
        Err(error) => errors::not_downloaded(&error),
    })
}

/// A multipart form that is being read.
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

/// The last file of the form so far.
struct Upload {
    /// As the client wrote it.
    name: String,
    replacement: Replacement,
}

impl Form<'_> {
    fn read(&mut self, mut input: &[u8]) -> Result<(), Response> {
        while !input.is_empty() {
            let (consumed, event) = self.parser.step(input).map_err(|error| errors::form_refused(&error))?;
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
        self.replacement.write_all(data).map_err(|error| errors::not_uploaded(&error, &self.name))
    }
}

/// Begins the file of a part, if it has one; an earlier file is discarded.
fn begin(root: &Root, head: PartHead, upload: &mut Option<Upload>) -> Result<Part, Response> {
    let (Some(b"file"), Some(filename)) = (head.name.as_deref(), head.filename) else {
        return Ok(Part::Other);
    };
    let name = String::from_utf8_lossy(&filename).into_owned();
    let begin = || Replacement::begin(root, &RelPath::parse(&filename)?);
    let replacement = begin().map_err(|error| errors::not_uploaded(&error, &name))?;
    *upload = Some(Upload { name, replacement });
    Ok(Part::File)
}

/// The whole file, a range of it, or 304 if the client has it already (RFC 9110 sections 13 and 14).
fn file_response(head: &Head, file: OpenFile, name: &[u8]) -> Response {
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
        errors::not_modified()
    } else {
        match wanted {
            Range::Whole => errors::whole_file(Payload::File { file, offset: 0, length: size }),
            Range::Part { offset, length } => {
                let end = offset + length - 1;
                let content_range = format!("bytes {offset}-{end}/{size}");
                errors::partial_file(Payload::File { file, offset, length }, content_range)
            }
            Range::Unsatisfiable => errors::range_not_satisfiable(format!("bytes */{size}")),
        }
    };
    response
        .with("Accept-Ranges", "bytes")
        .with("ETag", etag)
        .with("Last-Modified", last_modified)
        .with("Content-Disposition", content_disposition(name))
}

/// Whether the client has this version of the file. A date counts only if it is exactly the one that was
/// sent, so no clock has to be trusted.
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
