//! Errors and results as responses: the statuses and sentences that clients of the reference match on.
//!
//! Deployed clients send a request again after 500, 502, 503 and 504. So nothing that a client can cause is
//! one of those; faults of the disk remain, and a full disk is 507.

use super::super::errors::{JSON, detail, json, refused, single_field};
use super::python;
use super::wire::Invalid;
use crate::files;
use crate::http;
use crate::http::response::{Payload, Response, ResponseHead, Stream};
use crate::http::status::Status;
use crate::json::write::{ValueWriter, to_bytes};
use crate::sys::errno::{EIO, ENODEV, ESTALE, EUCLEAN};
use std::io;

pub(super) use super::super::errors::body_refused;

const OCTETS: &str = "application/octet-stream";

/// Up to this size a response is encoded in memory, and has a length.
const SMALL_BYTES: usize = 64 << 10;

/// Added to the estimate: the keys.
const TYPICAL_JSON_BYTES: usize = 128;

pub(super) fn ok(write: impl FnOnce(ValueWriter<'_>) -> io::Result<()>) -> Response {
    json(Status::OK, to_bytes(write))
}

/// A response whose JSON, if it is large, is encoded while it is sent.
pub(super) fn ok_streamed(body: impl Stream + 'static, estimated_bytes: usize) -> Response {
    if estimated_bytes <= SMALL_BYTES {
        let mut encoded = Vec::with_capacity(estimated_bytes + TYPICAL_JSON_BYTES);
        // Writing to memory cannot fail; if it did, streaming would still be right.
        if body.write_to(&mut encoded).is_ok() {
            return json(Status::OK, encoded);
        }
    }
    Response::new(Status::OK, Payload::Stream(Box::new(body))).with("Content-Type", JSON)
}

/// The head of a response that begins before the result of its command is known.
pub(super) fn executed() -> ResponseHead {
    ResponseHead::new(Status::OK).with("Content-Type", JSON)
}

pub(super) fn uploaded(name: &str) -> Response {
    message(Status::OK, &format!("File '{name}' uploaded successfully."))
}

pub(super) fn whole_file(payload: Payload) -> Response {
    Response::new(Status::OK, payload).with("Content-Type", OCTETS)
}

pub(super) fn partial_file(payload: Payload, content_range: String) -> Response {
    let response = Response::new(Status::PARTIAL_CONTENT, payload);
    response.with("Content-Type", OCTETS).with("Content-Range", content_range)
}

pub(super) fn range_not_satisfiable(content_range: String) -> Response {
    detail(Status::RANGE_NOT_SATISFIABLE, "Range Not Satisfiable").with("Content-Range", content_range)
}

pub(super) fn not_modified() -> Response {
    Response::new(Status::NOT_MODIFIED, Payload::Empty)
}

fn message(status: Status, sentence: &str) -> Response {
    single_field(status, "message", sentence)
}

pub(super) fn unprocessable(invalid: &Invalid) -> Response {
    json(Status::UNPROCESSABLE_CONTENT, invalid.to_json())
}

/// A form that cannot be parsed, or is not one.
pub(super) fn form_refused(error: &http::Error) -> Response {
    match error {
        http::Error::NotMultipart => no_file(),
        error => refused(error),
    }
}

/// A form without a file named `file`.
pub(super) fn no_file() -> Response {
    unprocessable(&Invalid::missing("file"))
}

fn denied() -> Response {
    message(Status::FORBIDDEN, "Access denied")
}

pub(super) fn not_downloaded(error: &files::Error) -> Response {
    match error {
        files::Error::Denied | files::Error::NotPermitted(_) => denied(),
        files::Error::Io { .. } => message(status_of_fault(error), &format!("File download failed: {error}")),
        _ => message(Status::NOT_FOUND, "File not found"),
    }
}

pub(super) fn not_listed(error: &files::Error) -> Response {
    match error {
        files::Error::Denied | files::Error::NotPermitted(_) => denied(),
        files::Error::Io { .. } => message(status_of_fault(error), &format!("List files failed: {error}")),
        _ => message(Status::NOT_FOUND, "Path is not a directory"),
    }
}

pub(super) fn not_checked(error: &files::Error) -> Response {
    match error {
        files::Error::Io { .. } => message(status_of_fault(error), &format!("Exists failed: {error}")),
        _ => denied(),
    }
}

pub(super) fn not_uploaded(error: &files::Error, name: &str) -> Response {
    let status = match error {
        files::Error::Denied => return denied(),
        files::Error::NotPermitted(_) => Status::FORBIDDEN,
        files::Error::NoSpace(_) => Status::INSUFFICIENT_STORAGE,
        files::Error::Io { .. } => status_of_fault(error),
        _ => Status::BAD_REQUEST,
    };
    let reason = match error.raw_os_error() {
        Some(errno) => python::os_error(&io::Error::from_raw_os_error(errno), Some(name)),
        None => error.to_string(),
    };
    message(status, &format!("File upload failed: {reason}"))
}

/// The status of an unexpected error. Only a broken disk is the server's fault. A shortage of descriptors or
/// memory may be a client's doing, and passes; everything else results from the request.
fn status_of_fault(error: &files::Error) -> Status {
    match error.raw_os_error() {
        Some(EIO | ENODEV | ESTALE | EUCLEAN) => Status::INTERNAL_SERVER_ERROR,
        _ if error.is_transient_shortage() => Status::TOO_MANY_REQUESTS,
        _ => Status::BAD_REQUEST,
    }
}
