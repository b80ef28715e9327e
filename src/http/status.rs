//! Status codes and their reason phrases (RFC 9110 section 15, RFC 4918 section 11, RFC 6585).
//!
//! Only the codes that the server uses have a name, and no other can be made: `api` chooses among them.

use std::fmt;

/// The status of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(u16);

impl Status {
    pub const CONTINUE: Self = Self(100);
    pub const OK: Self = Self(200);
    pub const NO_CONTENT: Self = Self(204);
    pub const PARTIAL_CONTENT: Self = Self(206);
    pub const NOT_MODIFIED: Self = Self(304);
    pub const BAD_REQUEST: Self = Self(400);
    pub const UNAUTHORIZED: Self = Self(401);
    pub const FORBIDDEN: Self = Self(403);
    pub const NOT_FOUND: Self = Self(404);
    pub const METHOD_NOT_ALLOWED: Self = Self(405);
    pub const REQUEST_TIMEOUT: Self = Self(408);
    pub const CONTENT_TOO_LARGE: Self = Self(413);
    pub const URI_TOO_LONG: Self = Self(414);
    pub const RANGE_NOT_SATISFIABLE: Self = Self(416);
    pub const UNPROCESSABLE_CONTENT: Self = Self(422);
    pub const TOO_MANY_REQUESTS: Self = Self(429);
    pub const HEADER_FIELDS_TOO_LARGE: Self = Self(431);
    pub const INTERNAL_SERVER_ERROR: Self = Self(500);
    pub const SERVICE_UNAVAILABLE: Self = Self(503);
    pub const INSUFFICIENT_STORAGE: Self = Self(507);

    pub fn number(self) -> u16 {
        self.0
    }

    /// Whether a response with this status can have a body, and so a length (RFC 9112 section 6.3).
    pub fn may_have_body(self) -> bool {
        !matches!(self.0, 100..=199 | 204 | 304)
    }

    /// The reason phrase of the status line. An empty one is allowed (RFC 9112 section 4).
    pub fn reason(self) -> &'static str {
        match self {
            Self::CONTINUE => "Continue",
            Self::OK => "OK",
            Self::NO_CONTENT => "No Content",
            Self::PARTIAL_CONTENT => "Partial Content",
            Self::NOT_MODIFIED => "Not Modified",
            Self::BAD_REQUEST => "Bad Request",
            Self::UNAUTHORIZED => "Unauthorized",
            Self::FORBIDDEN => "Forbidden",
            Self::NOT_FOUND => "Not Found",
            Self::METHOD_NOT_ALLOWED => "Method Not Allowed",
            Self::REQUEST_TIMEOUT => "Request Timeout",
            Self::CONTENT_TOO_LARGE => "Content Too Large",
            Self::URI_TOO_LONG => "URI Too Long",
            Self::RANGE_NOT_SATISFIABLE => "Range Not Satisfiable",
            Self::UNPROCESSABLE_CONTENT => "Unprocessable Content",
            Self::TOO_MANY_REQUESTS => "Too Many Requests",
            Self::HEADER_FIELDS_TOO_LARGE => "Request Header Fields Too Large",
            Self::INTERNAL_SERVER_ERROR => "Internal Server Error",
            Self::SERVICE_UNAVAILABLE => "Service Unavailable",
            Self::INSUFFICIENT_STORAGE => "Insufficient Storage",
            _ => "",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_a_number_and_a_phrase() {
        for (status, number, reason) in [
            (Status::CONTINUE, 100, "Continue"),
            (Status::OK, 200, "OK"),
            (Status::NO_CONTENT, 204, "No Content"),
            (Status::PARTIAL_CONTENT, 206, "Partial Content"),
            (Status::NOT_MODIFIED, 304, "Not Modified"),
            (Status::BAD_REQUEST, 400, "Bad Request"),
            (Status::UNAUTHORIZED, 401, "Unauthorized"),
            (Status::FORBIDDEN, 403, "Forbidden"),
            (Status::NOT_FOUND, 404, "Not Found"),
            (Status::METHOD_NOT_ALLOWED, 405, "Method Not Allowed"),
            (Status::REQUEST_TIMEOUT, 408, "Request Timeout"),
            (Status::CONTENT_TOO_LARGE, 413, "Content Too Large"),
            (Status::URI_TOO_LONG, 414, "URI Too Long"),
            (Status::RANGE_NOT_SATISFIABLE, 416, "Range Not Satisfiable"),
            (Status::UNPROCESSABLE_CONTENT, 422, "Unprocessable Content"),
            (Status::TOO_MANY_REQUESTS, 429, "Too Many Requests"),
            (Status::HEADER_FIELDS_TOO_LARGE, 431, "Request Header Fields Too Large"),
            (Status::INTERNAL_SERVER_ERROR, 500, "Internal Server Error"),
            (Status::SERVICE_UNAVAILABLE, 503, "Service Unavailable"),
            (Status::INSUFFICIENT_STORAGE, 507, "Insufficient Storage"),
        ] {
            assert_eq!((status.number(), status.reason()), (number, reason));
            assert_eq!(status.to_string(), number.to_string());
        }
    }

    #[test]
    fn three_kinds_of_status_have_no_body() {
        for status in [Status::CONTINUE, Status::NO_CONTENT, Status::NOT_MODIFIED] {
            assert!(!status.may_have_body(), "{status}");
        }
        for status in [Status::OK, Status::NOT_FOUND, Status::INTERNAL_SERVER_ERROR] {
            assert!(status.may_have_body(), "{status}");
        }
    }
}
