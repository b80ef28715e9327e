//! `/download`: content, headers and a single range.

use super::{Check, check};
use crate::http::Method;
use crate::request::{Request, encoded};
use crate::response::{Exchange, Stop, Verdict};
use crate::session::{KnownDifference, Session};

pub(super) const CHECKS: &[Check] = &[
    check("a download has the headers that clients rely on", download_headers),
    check("HEAD of a download has its length and no body", head_of_download),
    check("a single range is 206", ranges),
    check("a range past the end is 416", unsatisfiable_ranges),
    check("a missing file is 404", missing_file),
    check("downloading a directory is 404", download_directory),
    check("downloading a path through a file is 404, even with only a slash", download_trailing_slash),
    check("a file name is percent-decoded only once", decoded_once),
    check("downloading a FIFO is 404, without blocking", fifo),
];

pub(super) fn download(s: &Session, path: &str) -> Result<Exchange, Stop> {
    s.get(&format!("/download/{}", encoded(path)))
}

// DL-13
fn download_headers(s: &Session) -> Verdict {
    let path = s.file("headers.txt", b"0123456789")?;
    let exchange =
        s.send(Request::new("GET", &format!("/download/{path}")).header("Accept-Encoding", "gzip, br"))?;
    exchange.expect_status(200)?;
    exchange.expect_body(b"0123456789")?;
    exchange.expect_header("Content-Type", "application/octet-stream")?;
    exchange.expect_header("Content-Length", "10")?;
    exchange.expect_header("Accept-Ranges", "bytes")?;
    exchange.expect_header("Content-Disposition", "attachment; filename=\"headers.txt\"")?;
    let quoted = |tag: &str| tag.len() > 2 && tag.starts_with('"') && tag.ends_with('"');
    exchange.expect(exchange.response.header("etag").is_some_and(quoted), "ETag: \"...\"")?;
    let date = |date: &str| date.len() == 29 && date.ends_with(" GMT");
    exchange.expect(exchange.response.header("last-modified").is_some_and(date), "Last-Modified: <date>")?;
    for name in ["Content-Encoding", "Transfer-Encoding"] {
        exchange.expect(exchange.response.header(name).is_none(), &format!("no {name}"))?;
    }
    Ok(())
}

fn head_of_download(s: &Session) -> Verdict {
    let path = s.file("headers.txt", b"0123456789")?;
    let mut client = s.client()?;
    client.send_request(Request::new("HEAD", &format!("/download/{path}")))?;
    let head = client.next_response(Method::Head)?;
    let observed = head.response.status == 405;
    s.allow(head.expect_status(200), KnownDifference { name: "difference 12", observed })?;
    head.expect_header("Content-Length", "10")?;
    client.send_request(Request::new("GET", &format!("/download/{path}")))?;
    client.response()?.expect_body(b"0123456789")
}

fn get_range(s: &Session, range: &str) -> Result<Exchange, Stop> {
    let path = s.file("range.txt", b"0123456789")?;
    s.send(Request::new("GET", &format!("/download/{path}")).header("Range", range))
}

// DL-07
fn ranges(s: &Session) -> Verdict {
    for (range, content_range, content) in [
        ("bytes=0-3", "bytes 0-3/10", "0123"),
        ("bytes=5-", "bytes 5-9/10", "56789"),
        ("bytes=-3", "bytes 7-9/10", "789"),
        ("bytes=-30", "bytes 0-9/10", "0123456789"),
        ("bytes=9-100", "bytes 9-9/10", "9"),
        ("bytes=0-18446744073709551616", "bytes 0-9/10", "0123456789"),
        ("bytes=0-99999999999999999999999999999999", "bytes 0-9/10", "0123456789"),
        ("bytes=-18446744073709551616", "bytes 0-9/10", "0123456789"),
        ("bytes=0-0", "bytes 0-0/10", "0"),
        ("bytes=9-9", "bytes 9-9/10", "9"),
        ("BYTES=1-2", "bytes 1-2/10", "12"),
    ] {
        let exchange = get_range(s, range)?;
        exchange.expect_status(206)?;
        exchange.expect_header("Content-Range", content_range)?;
        exchange.expect_header("Content-Length", &content.len().to_string())?;
        exchange.expect_body(content.as_bytes())?;
    }
    Ok(())
}

fn unsatisfiable_ranges(s: &Session) -> Verdict {
    for range in ["bytes=10-", "bytes=11-12", "bytes=-0"] {
        let exchange = get_range(s, range)?;
        exchange.expect_status(416)?;
        exchange.expect_header("Content-Range", "bytes */10")?;
    }
    Ok(())
}

const NOT_FOUND: &str = r#"{"message":"File not found"}"#;

fn missing_file(s: &Session) -> Verdict {
    download(s, &s.path("nothing-here"))?.expect_json(404, NOT_FOUND)?;
    download(s, &s.path("nothing/here"))?.expect_json(404, NOT_FOUND)
}

fn download_directory(s: &Session) -> Verdict {
    s.file("folder/f", b"")?;
    download(s, &s.path("folder"))?.expect_json(404, NOT_FOUND)?;
    s.get("/download/")?.expect_json(404, NOT_FOUND)?;
    let exchange = s.get("/download")?;
    let observed = exchange.response.status == 307;
    s.allow(exchange.expect_json(404, NOT_FOUND), KnownDifference { name: "redirects", observed })
}

// DL-16
fn download_trailing_slash(s: &Session) -> Verdict {
    let path = s.file("slash.txt", b"x")?;
    for rest in ["/x", "/", "%2F", "//", "/.", "/../slash.txt"] {
        let exchange = s.get(&format!("/download/{path}{rest}"))?;
        let observed = exchange.response.status == 200;
        s.allow(exchange.expect_json(404, NOT_FOUND), KnownDifference { name: "difference 14", observed })?;
    }
    Ok(())
}

// DL-10
fn decoded_once(s: &Session) -> Verdict {
    for (name, content) in [("a+b", "plus"), ("a b", "space"), ("pctA", "letter"), ("pct%41", "percent")] {
        s.file(&format!("decoded/{name}"), content.as_bytes())?;
    }
    let get = |target: &str| s.get(&format!("/download/{}/decoded/{target}", s.directory));
    for (target, content) in
        [("a+b", "plus"), ("a%2Bb", "plus"), ("a%20b", "space"), ("pctA", "letter"), ("pct%41", "letter")]
    {
        let exchange = get(target)?;
        exchange.expect_status(200)?;
        exchange.expect_body(content.as_bytes())?;
    }
    let exchange = get("pct%2541")?;
    let observed = exchange.response.body == b"letter";
    let result = exchange.expect_status(200).and_then(|()| exchange.expect_body(b"percent"));
    s.allow(result, KnownDifference { name: "difference 8", observed })
}

// DL-01
fn fifo(s: &Session) -> Verdict {
    s.needs(&["mkfifo"])?;
    s.file("special/f", b"")?;
    let path = s.path("special/out");
    s.execute(&format!("mkfifo {path}"))?.expect_result("", "", 0)?;
    download(s, &path)?.expect_json(404, NOT_FOUND)
}
