//! Responses to requests that do not reach a handler: no route, no token, no worker, or not a valid request.
//!
//! Deployed clients send a request again after 500, 502, 503 and 504. So a 503 is sent only if nothing has
//! been started, and a mistake of the client never gets one of these.

use super::BodyError;
use super::route::NoRoute;
use crate::http;
use crate::http::response::{Payload, Response};
use crate::http::status::Status;
use crate::json::write::to_bytes;

pub(super) const JSON: &str = "application/json";

/// A JSON object with one string: `detail` for the request as a whole.
pub(super) fn detail(status: Status, sentence: &str) -> Response {
    single_field(status, "detail", sentence)
}

pub(super) fn single_field(status: Status, name: &str, sentence: &str) -> Response {
    let body = to_bytes(|value| {
        let mut object = value.object()?;
        object.field(name)?.string(sentence)?;
        object.end()
    });
    json(status, body)
}

pub(super) fn json(status: Status, body: Vec<u8>) -> Response {
    Response::new(status, Payload::Bytes(body)).with("Content-Type", JSON)
}

pub(super) fn no_route(no_route: NoRoute) -> Response {
    match no_route {
        NoRoute::UnknownPath => detail(Status::NOT_FOUND, "Not Found"),
        NoRoute::WrongMethod { allow } => {
            detail(Status::METHOD_NOT_ALLOWED, "Method Not Allowed").with("Allow", allow)
        }
    }
}

pub(super) fn unauthorized() -> Response {
    detail(Status::UNAUTHORIZED, "Not authenticated").with("WWW-Authenticate", "Bearer")
}

/// Invalid HTTP, or a limit of HTTP was exceeded.
pub fn refused(error: &http::Error) -> Response {
    let status = match error {
        http::Error::Malformed(_) | http::Error::NotMultipart | http::Error::NoBoundary => {
            Status::BAD_REQUEST
        }
        http::Error::TargetTooLong => Status::URI_TOO_LONG,
        http::Error::HeadTooLarge | http::Error::TooManyHeaders => Status::HEADER_FIELDS_TOO_LARGE,
        http::Error::BodyTooLarge { .. } | http::Error::LengthTooLarge => Status::CONTENT_TOO_LARGE,
    };
    detail(status, &error.to_string())
}

/// No worker is available for the request. Nothing has been started, so the client may send it again.
pub(super) fn busy() -> Response {
    detail(Status::SERVICE_UNAVAILABLE, "too many concurrent requests").with("Retry-After", "1")
}

/// The head of a request did not arrive in time.
pub fn head_timed_out() -> Response {
    detail(Status::REQUEST_TIMEOUT, "timed out reading the request")
}

/// The connection was closed within a head.
pub fn head_truncated() -> Response {
    detail(Status::BAD_REQUEST, "connection closed while reading the request headers")
}

pub(super) fn body_refused(error: &BodyError) -> Response {
    match error {
        BodyError::Refused(error) => refused(error),
        BodyError::TimedOut => detail(Status::REQUEST_TIMEOUT, &error.to_string()),
        BodyError::Disconnected(_) => detail(Status::BAD_REQUEST, &error.to_string()),
    }
}
