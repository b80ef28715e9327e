//! The optional token, which every route requires that is not public.

use crate::http::head::Head;
use std::fmt;
use std::hint::black_box;

/// A secret that clients and the server share.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Vec<u8>);

impl Token {
    /// Printable ASCII without spaces, which any header can carry.
    ///
    /// # Errors
    /// The problem; never the token itself.
    pub fn new(secret: &[u8]) -> Result<Self, String> {
        if secret.is_empty() {
            return Err("empty; unset it to serve without authentication".into());
        }
        if !secret.iter().all(u8::is_ascii_graphic) {
            return Err("expected printable ASCII without spaces".into());
        }
        Ok(Self(secret.to_vec()))
    }

    /// Whether the request has it, as `Authorization: Bearer` or as `X-API-Key` (routers use the former
    /// themselves).
    pub(super) fn is_in(&self, head: &Head) -> bool {
        let bearer = head.headers.get("authorization").and_then(bearer);
        let given = [bearer, head.headers.get("x-api-key")];
        given.into_iter().flatten().any(|given| self.equals(given))
    }

    /// Takes the same time wherever the first difference is. Only the length can be learnt from the timing.
    fn equals(&self, given: &[u8]) -> bool {
        let differences =
            self.0.iter().zip(given).fold(0, |differences, (a, b)| differences | black_box(a ^ b));
        self.0.len() == given.len() && differences == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// The credentials of the scheme `Bearer`, in any case (RFC 6750, RFC 9110 section 11.4).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, credentials) = value.split_at_checked(b"Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| credentials.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{Limits, head};

    #[track_caller]
    fn check(headers: &str, expected: bool) {
        let text = format!("GET /list HTTP/1.1\r\nHost: x\r\n{headers}\r\n");
        let (head, _) = head::parse(text.as_bytes(), &Limits::default()).unwrap().unwrap();
        assert_eq!(Token::new(b"s3cret").unwrap().is_in(&head), expected, "{headers}");
    }

    #[test]
    fn both_headers_are_accepted() {
        check("Authorization: Bearer s3cret\r\n", true);
        check("authorization: bEARER  s3cret \r\n", true);
        check("X-API-Key: s3cret\r\n", true);
        check("Authorization: Bearer of-the-router\r\nX-API-Key: s3cret\r\n", true);
    }

    #[test]
    fn other_credentials_are_refused() {
        // AU-01
        for headers in [
            "",
            "Authorization: \r\n",
            "Authorization: Bearer\r\n",
            "Authorization: Bearer \r\n",
            "Authorization: Basic s3cret\r\n",
            "Authorization: s3cret\r\n",
            "Authorization: Bearer s3cre\r\n",
            "Authorization: Bearer s3cret1\r\n",
            "Authorization: Bearer S3CRET\r\n",
            "Authorization: Bearer s3cret s3cret\r\n",
            "X-API-Key: \r\n",
            "X-API-Key: Bearer s3cret\r\n",
            "X-Api-Token: s3cret\r\n",
        ] {
            check(headers, false);
        }
    }

    #[test]
    fn tokens_that_no_header_can_carry_are_refused() {
        for secret in [&b""[..], b" ", b"a b", b"a\n", b"\xff", "é".as_bytes()] {
            let error = Token::new(secret).unwrap_err();
            assert!(secret.len() < 2 || !error.contains(&*String::from_utf8_lossy(secret)));
        }
    }
}
