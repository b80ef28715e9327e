//! Ambiguous requests, which two parsers could interpret differently: status 400, the connection closed, no
//! effect.

use super::{Check, check};
use crate::response::Verdict;
use crate::session::{KnownDifference, Session};

pub(super) const CHECKS: &[Check] = &[
    check("Content-Length together with Transfer-Encoding is 400", length_and_chunked),
    check("duplicate lengths are 400", duplicate_lengths),
    check("a length with anything but digits is 400", invalid_lengths),
    check("a chunk size with anything but hexadecimal digits is 400", invalid_chunk_sizes),
    check("a chunk longer than its size is 400", long_chunk),
    check("a bare LF in chunk framing is 400", bare_line_feeds),
    check("white space before the colon of a header is 400", space_before_colon),
    check("a folded header is 400", folded_header),
    check("a header without a colon or with a control byte is 400", malformed_headers),
];

const HEAD: &str = "POST /execute HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";
const BODY: &str = r#"{"command":"tester-no-such-program"}"#;

/// The reference accepts some of these requests: with 200 or 422, depending on what it parsed as the body.
fn refused(s: &Session, request: &[u8]) -> Verdict {
    let mut client = s.client()?;
    client.send(request)?;
    let exchange = client.response()?;
    let observed = matches!(exchange.response.status, 200 | 422);
    s.allow(exchange.expect_status(400), KnownDifference { name: "difference 13", observed })?;
    client.expect_closed()
}

fn refused_with(s: &Session, headers: &str, body: &str) -> Verdict {
    refused(s, format!("{HEAD}{headers}\r\n{body}").as_bytes())
}

// HP-01
fn length_and_chunked(s: &Session) -> Verdict {
    let inner = "0\r\n\r\nGET /exists/smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
    refused_with(s, "Content-Length: 36\r\nTransfer-Encoding: chunked\r\n", inner)?;
    refused_with(s, "Transfer-Encoding: chunked\r\nContent-Length: 36\r\n", inner)
}

// HP-04
fn duplicate_lengths(s: &Session) -> Verdict {
    refused_with(s, "Content-Length: 36\r\nContent-Length: 5\r\n", BODY)?;
    refused_with(s, "Content-Length: 36, 5\r\n", BODY)?;
    refused_with(s, "Content-Length: 36\r\nContent-Length: 36\r\n", BODY)?;
    refused_with(s, "Content-Length: 36, 36\r\n", BODY)
}

// HP-05
fn invalid_lengths(s: &Session) -> Verdict {
    for length in ["-1", "+36", "0x24", "36a", "3 6", "", "36.0", "1e2"] {
        refused_with(s, &format!("Content-Length: {length}\r\n"), BODY)?;
    }
    Ok(())
}

fn refused_chunks(s: &Session, chunks: &str) -> Verdict {
    refused_with(s, "Transfer-Encoding: chunked\r\n", chunks)
}

// HP-06
fn invalid_chunk_sizes(s: &Session) -> Verdict {
    for size in ["-24", "+24", "0x24", "2_4", "24junk", "zz", ""] {
        refused_chunks(s, &format!("{size}\r\n{BODY}\r\n0\r\n\r\n"))?;
    }
    Ok(())
}

// HP-08
fn long_chunk(s: &Session) -> Verdict {
    refused_chunks(s, "5\r\nAAAAAXXX\r\n0\r\n\r\n")
}

fn bare_line_feeds(s: &Session) -> Verdict {
    refused_chunks(s, &format!("24\n{BODY}\r\n0\r\n\r\n"))?;
    refused_chunks(s, &format!("24;a\nb\r\n{BODY}\r\n0\r\n\r\n"))?;
    refused_chunks(s, &format!("24\r\n{BODY}\n0\r\n\r\n"))
}

fn space_before_colon(s: &Session) -> Verdict {
    refused_with(s, "Content-Length : 36\r\n", BODY)?;
    refused_with(s, "X-A : b\r\nContent-Length: 36\r\n", BODY)
}

// HP-16
fn folded_header(s: &Session) -> Verdict {
    refused_with(s, "X-A: b\r\n Content-Length: 0\r\nContent-Length: 36\r\n", BODY)
}

// HP-17
fn malformed_headers(s: &Session) -> Verdict {
    for header in ["garbage", ": v", "X-A: b\0c", "X-A: b\rc", "X A: b"] {
        refused(s, format!("GET / HTTP/1.1\r\nHost: x\r\n{header}\r\n\r\n").as_bytes())?;
    }
    refused(s, b"GET / HTTP/1.1\r\nHost: x\r\nX\xff-A: b\r\n\r\n")
}
