//! The only file in which an error becomes a status code and a client's sentence.
//!
//! Deployed clients replay whatever was answered with 500, 502, 503 or 504. So nothing that a client can cause is one of
//! those; what is left of them are faults of the disk, and a full disk is 507.

use super::{BodyError, python};
use crate::api::{Detail, ExecuteResponse, Invalid, Message, Unprocessable, to_json};
use crate::files;
use crate::http;
use crate::http::response::{Payload, Response, Stream};
use crate::http::status::Status;
use crate::route::NoRoute;
use crate::sys::errno;

const JSON: &str = "application/json";
const OCTETS: &str = "application/octet-stream";

/// An answer that is JSON already.
pub(super) fn ok(body: Vec<u8>) -> Response {
    json(Status::OK, body)
}

fn json(status: Status, body: Vec<u8>) -> Response {
    Response::new(status, Payload::Bytes(body)).with("Content-Type", JSON)
}

/// Up to this size an answer is made in memory, and has a length.
const SMALL_BYTES: usize = 64 << 10;

/// For what is not estimated: the keys.
const TYPICAL_JSON_BYTES: usize = 128;

/// An answer whose JSON, if it is large, is made while it is written.
pub(super) fn json_made(body: impl Stream + 'static, estimated_bytes: usize) -> Response {
    if estimated_bytes <= SMALL_BYTES {
        let mut made = Vec::with_capacity(estimated_bytes + TYPICAL_JSON_BYTES);
        // Writing to memory can not fail; if it did, the other way would still be right.
        if body.write_to(&mut made).is_ok() {
            return json(Status::OK, made);
        }
    }
    Response::new(Status::OK, Payload::Stream(Box::new(body))).with("Content-Type", JSON)
}

/// A command that did not run.
pub(super) fn not_executed(answer: &ExecuteResponse<'_>) -> Response {
    json(Status::OK, answer.to_json())
}

/// The head with which such an answer can begin before it is known.
pub fn executed_early() -> Response {
    json(Status::OK, Vec::new())
}

pub(super) fn uploaded(name: &str) -> Response {
    message(Status::OK, &format!("File '{name}' uploaded successfully."))
}

pub(super) fn whole(payload: Payload) -> Response {
    Response::new(Status::OK, payload).with("Content-Type", OCTETS)
}

pub(super) fn part(payload: Payload, content_range: &str) -> Response {
    Response::new(Status::PARTIAL_CONTENT, payload)
        .with("Content-Type", OCTETS)
        .with("Content-Range", content_range.to_owned())
}

pub(super) fn no_such_part(content_range: &str) -> Response {
    detail(Status::RANGE_NOT_SATISFIABLE, "Range Not Satisfiable")
        .with("Content-Range", content_range.to_owned())
}

pub(super) fn not_modified() -> Response {
    Response::new(Status::NOT_MODIFIED, Payload::Empty)
}

fn message(status: Status, sentence: &str) -> Response {
    json(status, to_json(&Message(sentence)))
}

fn detail(status: Status, sentence: &str) -> Response {
    json(status, to_json(&Detail(sentence)))
}

pub(super) fn no_route(no_route: NoRoute) -> Response {
    match no_route {
        NoRoute::UnknownPath => detail(Status::NOT_FOUND, "Not Found"),
        NoRoute::WrongMethod { allow } => {
            detail(Status::METHOD_NOT_ALLOWED, "Method Not Allowed").with("Allow", allow)
        }
    }
}

/// A request without the token.
pub(super) fn unauthorized() -> Response {
    detail(Status::UNAUTHORIZED, "Not authenticated").with("WWW-Authenticate", "Bearer")
}

/// A request that can not be understood.
pub fn refused(error: &http::Error) -> Response {
    let status = match error {
        http::Error::Malformed(_) | http::Error::NoBoundary => Status::BAD_REQUEST,
        http::Error::TargetTooLong => Status::URI_TOO_LONG,
        http::Error::HeadTooLarge | http::Error::TooManyHeaders => Status::HEADER_FIELDS_TOO_LARGE,
        http::Error::BodyTooLarge { .. } | http::Error::LengthTooLarge => Status::CONTENT_TOO_LARGE,
        http::Error::NotMultipart => return unprocessable(&no_file()),
    };
    detail(status, &error.to_string())
}

/// A request that can not be worked on now. Nothing has been started, so it may come again.
pub fn busy() -> Response {
    detail(Status::SERVICE_UNAVAILABLE, "too many requests are running").with("Retry-After", "1")
}

/// A request whose head did not arrive in time.
pub fn late() -> Response {
    detail(Status::REQUEST_TIMEOUT, "the request did not arrive in time")
}

/// A connection that ended within a head.
pub fn cut_off() -> Response {
    detail(Status::BAD_REQUEST, "the request ended within its head")
}

pub(super) fn body_refused(error: &BodyError) -> Response {
    match error {
        BodyError::Refused(error) => refused(error),
        BodyError::Late => detail(Status::REQUEST_TIMEOUT, &error.to_string()),
        BodyError::Lost(_) => detail(Status::BAD_REQUEST, "the request ended within its body"),
    }
}

pub(super) fn unprocessable(invalid: &Invalid) -> Response {
    json(Status::UNPROCESSABLE_CONTENT, to_json(&Unprocessable(invalid)))
}

pub(super) fn not_json() -> Response {
    unprocessable(&Invalid::new("model_attributes_type", None, "the content type should be application/json"))
}

/// A form without a part that is a file named `file`.
pub(super) fn no_file() -> Invalid {
    Invalid::new("missing", Some("file"), "Field required")
}

fn denied() -> Response {
    message(Status::FORBIDDEN, "Access denied")
}

pub(super) fn not_downloaded(error: &files::Error) -> Response {
    match error {
        files::Error::Denied | files::Error::NotPermitted(_) => denied(),
        files::Error::Io { .. } => message(system_fault(error), &format!("File download failed: {error}")),
        _ => message(Status::NOT_FOUND, "File not found"),
    }
}

pub(super) fn not_listed(error: &files::Error) -> Response {
    match error {
        files::Error::Denied | files::Error::NotPermitted(_) => denied(),
        files::Error::Io { .. } => message(system_fault(error), &format!("List files failed: {error}")),
        _ => message(Status::NOT_FOUND, "Path is not a directory"),
    }
}

pub(super) fn not_looked_up(error: &files::Error) -> Response {
    match error {
        files::Error::Io { .. } => message(system_fault(error), &format!("Exists failed: {error}")),
        _ => denied(),
    }
}

pub(super) fn not_uploaded(error: &files::Error, name: &str) -> Response {
    let status = match error {
        files::Error::Denied => return denied(),
        files::Error::NotPermitted(_) => Status::FORBIDDEN,
        files::Error::NoSpace(_) => Status::INSUFFICIENT_STORAGE,
        files::Error::Io { .. } => system_fault(error),
        _ => Status::BAD_REQUEST,
    };
    let why = match error.raw_os_error() {
        Some(errno) => python::os_error(&std::io::Error::from_raw_os_error(errno), Some(name)),
        None => error.to_string(),
    };
    message(status, &format!("File upload failed: {why}"))
}

/// What is left when an operation on a file fails. Only a broken disk is the server's own fault. A shortage of descriptors
/// or memory can be a client's doing, and passes; everything else comes of what was asked for.
fn system_fault(error: &files::Error) -> Status {
    match error.raw_os_error() {
        Some(errno::EIO | errno::ENODEV | errno::ESTALE | errno::EUCLEAN) => Status::INTERNAL_SERVER_ERROR,
        _ if error.is_transient_shortage() => Status::TOO_MANY_REQUESTS,
        _ => Status::BAD_REQUEST,
    }
}
