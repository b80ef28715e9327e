//! `/upload`: the stored file equals the uploaded one, and no other file appears.

use super::bodies::unprocessable;
use super::download::download;
use super::{Check, check};
use crate::json::{self, Value};
use crate::request::{BOUNDARY, Request, encoded};
use crate::response::{Exchange, Verdict};
use crate::session::{KnownDifference, Session};

pub(super) const CHECKS: &[Check] = &[
    check("an uploaded file downloads byte for byte", round_trip),
    check("a second upload replaces the first", replacement),
    check("names with spaces, quotes, % and any script are accepted", names),
    check("an upload name is not percent-decoded", literal_upload_names),
    check("%22 in an upload name is a double quote, as browsers and the SDK encode it", quoted_upload_name),
    check("missing parent directories are created", parent_directories),
    check("a chunked upload without a length is accepted", chunked_upload),
    check("text similar to the boundary is part of the file", boundary_lookalikes),
    check("uploading to a name with a trailing slash is 400", upload_trailing_slash),
    check("uploading below a file is a client error", upload_below_a_file),
    check("an upload without a file part is 422", no_file_part),
    check("an upload that is not multipart is 422", not_multipart),
    check("an upload without its closing boundary creates no file", truncated_upload),
    check("an upload to a FIFO is refused", fifo),
];

fn uploaded(s: &Session, path: &str, content: &[u8]) -> Verdict {
    let exchange = s.upload(path, content)?;
    exchange.expect_json(200, &message(&format!("File '{path}' uploaded successfully.")))
}

fn message(text: &str) -> String {
    format!("{{\"message\":{}}}", json::string(text))
}

fn check_round_trip(s: &Session, path: &str, content: &[u8]) -> Verdict {
    uploaded(s, path, content)?;
    let exchange = download(s, path)?;
    exchange.expect_status(200)?;
    exchange.expect_header("Content-Length", &content.len().to_string())?;
    exchange.expect_body(content)
}

fn round_trip(s: &Session) -> Verdict {
    let every_byte: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    check_round_trip(s, &s.path("all-bytes.bin"), &every_byte)?;
    for content in [&b""[..], b"\0", b"a\r\nb\n\r", b"\r\na\r\n\r\n--\r\n"] {
        check_round_trip(s, &s.path("short"), content)?;
    }
    Ok(())
}

fn replacement(s: &Session) -> Verdict {
    let path = s.path("twice.txt");
    check_round_trip(s, &path, b"a longer first version")?;
    check_round_trip(s, &path, b"second")
}

fn names(s: &Session) -> Verdict {
    for name in ["a b.txt", "分 é 😀.txt", "100%", "quo\"te", "it's", "a+b&c=d#e?f;g", " lead", ".hid"] {
        let path = s.path(&format!("names/{name}"));
        check_round_trip(s, &path, name.as_bytes())?;
        let expected = format!("{{\"path\":{},\"exists\":true}}", json::string(&path));
        s.get(&format!("/exists/{}", encoded(&path)))?.expect_json(200, &expected)?;
    }
    Ok(())
}

// UP-02. Checked with a listing, since the reference cannot download such a name.
fn literal_upload_names(s: &Session) -> Verdict {
    for name in ["..%2fup", "%41"] {
        let path = s.path(&format!("literal/{name}"));
        uploaded(s, &path, b"x")?;
        let listing = s.get(&format!("/list/{}", s.path("literal")))?;
        let entry = format!("\"name\":\"{name}\"");
        let met = String::from_utf8_lossy(&listing.response.body).contains(&entry);
        listing.expect(met, &entry)?;
    }
    Ok(())
}

fn quoted_upload_name(s: &Session) -> Verdict {
    s.upload(&s.path("quoted/a%22b"), b"x")?.expect_status(200)?;
    let listing = s.get(&format!("/list/{}", s.path("quoted")))?;
    let observed = String::from_utf8_lossy(&listing.response.body).contains("\"name\":\"a%22b\"");
    let entry = "\"name\":\"a\\\"b\"";
    let met = String::from_utf8_lossy(&listing.response.body).contains(entry);
    s.allow(listing.expect(met, entry), KnownDifference { name: "%22 is not decoded", observed })
}

// CF-09
fn parent_directories(s: &Session) -> Verdict {
    let path = s.path("new/deep/er/f.txt");
    check_round_trip(s, &path, b"deep")?;
    let exchange = s.get(&format!("/download/{}", encoded(&path).replace('/', "%2F")))?;
    exchange.expect_status(200)?;
    exchange.expect_body(b"deep")
}

fn chunked_upload(s: &Session) -> Verdict {
    let content = format!("some\r\n--{} content", BOUNDARY.trim_end_matches('a'));
    for size in [1, 2, 3, 7, 64, 1000] {
        let path = s.path(&format!("chunks-of-{size}"));
        let part = format!("Content-Disposition: form-data; name=\"file\"; filename=\"{path}\"");
        let body = format!("--{BOUNDARY}\r\n{part}\r\n\r\n{content}\r\n--{BOUNDARY}--\r\n");
        let mut client = s.client()?;
        client.send(b"POST /upload HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n")?;
        client.send(format!("Content-Type: multipart/form-data; boundary={BOUNDARY}\r\n\r\n").as_bytes())?;
        for piece in body.as_bytes().chunks(size) {
            client.send(&[format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat())?;
        }
        client.send(b"0\r\n\r\n")?;
        client.response()?.expect_json(200, &message(&format!("File '{path}' uploaded successfully.")))?;
        client.send_request(Request::new("GET", &format!("/download/{path}")))?;
        client.response()?.expect_body(content.as_bytes())?;
    }
    Ok(())
}

// UP-10
fn boundary_lookalikes(s: &Session) -> Verdict {
    let path = s.path("lookalikes");
    let content = format!("x--{BOUNDARY}y\r\n--{}\r\n-{BOUNDARY}\r\n--\r\n", BOUNDARY.trim_end_matches('a'));
    check_round_trip(s, &path, content.as_bytes())
}

fn upload_trailing_slash(s: &Session) -> Verdict {
    let path = s.path("new-folder/");
    let exchange = s.upload(&path, b"x")?;
    let observed = exchange.response.status == 200;
    s.allow(upload_failed(&exchange, 400..401), KnownDifference { name: "difference 14", observed })?;
    exchange.expect(!s.exists(path.trim_end_matches('/'))?, "no file created")
}

// UP-04, UP-25
fn upload_below_a_file(s: &Session) -> Verdict {
    let file = s.file("plain", b"")?;
    s.file("folder/f", b"")?;
    for name in [format!("{file}/x"), s.path(&"n".repeat(300)), s.path("folder")] {
        let exchange = s.upload(&name, b"x")?;
        let observed = exchange.response.status == 500;
        let result = upload_failed(&exchange, 400..500);
        s.allow(result, KnownDifference { name: "5xx for a client error", observed })?;
    }
    Ok(())
}

fn upload_failed(exchange: &Exchange, statuses: std::ops::Range<u16>) -> Verdict {
    let value = exchange.json()?;
    let reason = value.get("message").and_then(Value::text).unwrap_or_default();
    let met = statuses.contains(&exchange.response.status) && reason.starts_with("File upload failed: ");
    let (first, last) = (statuses.start, statuses.end - 1);
    exchange.expect(
        met,
        &format!("a status from {first} to {last} and {{\"message\":\"File upload failed: ...\"}}"),
    )
}

// UP-04, UP-19
fn no_file_part(s: &Session) -> Verdict {
    unprocessable(&s.send(Request::multipart("form-data; name=\"other\"; filename=\"x\"", b"x"))?)?;
    unprocessable(&s.send(Request::multipart("form-data; name=\"file\"", b"x"))?)?;
    unprocessable(&s.send(Request::form(format!("--{BOUNDARY}--\r\n").as_bytes()))?)
}

// UP-19
fn not_multipart(s: &Session) -> Verdict {
    let request = Request::new("POST", "/upload").header("Content-Type", "application/json").body(b"{}");
    unprocessable(&s.send(request)?)?;
    unprocessable(&s.send(Request::new("POST", "/upload").body(b"x"))?)
}

// UP-20
fn truncated_upload(s: &Session) -> Verdict {
    s.file("cut/before", b"")?;
    let path = s.path("cut/f");
    let part = format!("form-data; name=\"file\"; filename=\"{path}\"");
    let body = format!("--{BOUNDARY}\r\nContent-Disposition: {part}\r\n\r\nhalf");
    let exchange = s.send(Request::form(body.as_bytes()))?;
    exchange.expect((400..500).contains(&exchange.response.status), "a status from 400 to 499")?;
    let listed = s.get(&format!("/list/{}", s.path("cut")))?;
    let names = listed.json()?;
    let only = names.array().is_some_and(|entries| entries.len() == 1);
    listed.expect(only, "only the file that existed before")
}

fn fifo(s: &Session) -> Verdict {
    s.needs(&["mkfifo"])?;
    s.file("special/f", b"")?;
    let path = s.path("special/in");
    s.execute(&format!("mkfifo {path}"))?.expect_result("", "", 0)?;
    s.skip_on_reference("difference 10: blocks forever")?;
    upload_failed(&s.upload(&path, b"x")?, 400..500)
}
