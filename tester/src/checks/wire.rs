//! HTTP/1.1 as routers, probes and SDKs use it. No check needs a program.

use std::thread;
use std::time::Duration;

use super::health::HEALTH;
use super::{Check, check};
use crate::client::Client;
use crate::http::Method;
use crate::request::Request;
use crate::response::Verdict;
use crate::session::{KnownDifference, Session};

pub(super) const CHECKS: &[Check] = &[
    check("several requests on one connection", keep_alive),
    check("pipelined requests are processed in order", pipelining),
    check("an empty line before a request is ignored", empty_line),
    check("Connection: close closes the connection", close),
    check("an HTTP/1.0 client gets a length, no chunks, and a closed connection", http_1_0),
    check("a chunked body with extensions and trailers is accepted", chunked_body),
    check("a body in chunks of any size is the same", chunks_of_any_size),
    check("a request that arrives byte by byte is accepted", byte_by_byte),
    check("a GET with an empty chunked body is accepted, as one router sends it", chunked_get),
    check("Expect: 100-continue is confirmed before the body is sent", expect_continue),
    check("Expect: 100-continue is not confirmed for a body that is not read", expect_refused),
    check("an absolute-form target is accepted", absolute_form),
    check("a body that is not read is not parsed as a request", unread_body),
    check("an unsupported upgrade is ignored", upgrade),
    check("64 headers are accepted", many_headers),
];

/// 36 bytes: hexadecimal 24.
const BODY: &str = r#"{"command":"tester-no-such-program"}"#;
const REASON: &str = "[Errno 2] No such file or directory: 'tester-no-such-program'";
const LAST_REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

fn keep_alive(s: &Session) -> Verdict {
    let mut client = s.client()?;
    for _ in 0..2 {
        client.send_request(Request::json(BODY))?;
        client.response()?.ran()?.expect_failure(REASON)?;
        client.send_request(Request::new("GET", "/"))?;
        client.response()?.expect_status(200)?;
        client.send_request(Request::new("GET", "/nosuch"))?;
        client.response()?.expect_status(404)?;
    }
    Ok(())
}

// HP-25
fn pipelining(s: &Session) -> Verdict {
    let mut client = s.client()?;
    let command = |name: &str| Request::json(&format!("{{\"command\":\"tester-no-such-{name}\"}}"));
    let requests = [
        command("a").encode("x"),
        Request::new("GET", "/").encode("x"),
        command("b").encode("x"),
        command("c").header("Connection", "close").encode("x"),
        // A request after the one that closes the connection gets no response.
        LAST_REQUEST.to_vec(),
    ];
    client.send(&requests.concat())?;
    let mut next = || client.response();
    next()?.ran()?.expect_failure("[Errno 2] No such file or directory: 'tester-no-such-a'")?;
    next()?.expect_json(200, HEALTH)?;
    next()?.ran()?.expect_failure("[Errno 2] No such file or directory: 'tester-no-such-b'")?;
    next()?.ran()?.expect_failure("[Errno 2] No such file or directory: 'tester-no-such-c'")?;
    client.expect_closed()
}

fn empty_line(s: &Session) -> Verdict {
    let mut client = s.client()?;
    client.send(&[Request::json(BODY).encode("x").as_slice(), b"\r\n", LAST_REQUEST].concat())?;
    client.response()?.ran()?.expect_failure(REASON)?;
    let second = client.response()?;
    let observed = second.response.status == 400;
    s.allow(second.expect_json(200, HEALTH), KnownDifference { name: "no empty lines", observed })
}

// CN-09
fn close(s: &Session) -> Verdict {
    let mut client = s.client()?;
    client.send(LAST_REQUEST)?;
    let exchange = client.response()?;
    exchange.expect_status(200)?;
    let announced =
        exchange.response.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    exchange.expect(announced, "Connection: close")?;
    client.expect_closed()
}

// HP-28
fn http_1_0(s: &Session) -> Verdict {
    let mut client = s.client()?;
    client.send(b"GET / HTTP/1.0\r\n\r\n")?;
    let exchange = client.response()?;
    exchange.expect_status(200)?;
    exchange.expect_header("Content-Length", &exchange.response.body.len().to_string())?;
    client.expect_closed()
}

const HEAD: &str = "POST /execute HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";
const CHUNKED: &str = "Transfer-Encoding: chunked";

/// The request with this header and body, and the last one.
fn then_last(header: &str, body: &str) -> Vec<u8> {
    [format!("{HEAD}{header}\r\n\r\n{body}").as_bytes(), LAST_REQUEST].concat()
}

fn expect_both(client: &mut Client, reason: &str) -> Verdict {
    client.response()?.ran()?.expect_failure(reason)?;
    client.response()?.expect_json(200, HEALTH)?;
    client.expect_closed()
}

/// Two chunks, an extension and a trailer.
fn chunks() -> String {
    let (first, second) = BODY.split_at(10);
    format!("a;x=y\r\n{first}\r\n1A\r\n{second}\r\n0\r\nX-Trailer: z\r\n\r\n")
}

// HP-10
fn chunked_body(s: &Session) -> Verdict {
    let one = format!("24\r\n{BODY}\r\n0\r\n\r\n");
    for (header, body) in [
        (CHUNKED, &chunks()),
        (CHUNKED, &one),
        ("transfer-ENCODING:\t Chunked ", &one),
        (CHUNKED, &format!("0024\r\n{BODY}\r\n0000\r\n\r\n")),
        (CHUNKED, &format!("0000000000000024\r\n{BODY}\r\n0\r\n\r\n")),
        (CHUNKED, &format!("24;a=\"b;c\";d\r\n{BODY}\r\n0;e\r\nX-T: y\r\nContent-Length: 5\r\n\r\n")),
    ] {
        let mut client = s.client()?;
        client.send(&then_last(header, body))?;
        expect_both(&mut client, REASON)?;
    }
    Ok(())
}

fn chunks_of_any_size(s: &Session) -> Verdict {
    let body = r#"{"command":"./tester-é😀"}"#.as_bytes();
    for size in [1, 2, 3, 7, body.len()] {
        let mut client = s.client()?;
        client.send(format!("{HEAD}{CHUNKED}\r\n\r\n").as_bytes())?;
        for piece in body.chunks(size) {
            client.send(&[format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat())?;
        }
        client.send(b"0\r\n\r\n")?;
        let reason = "[Errno 2] No such file or directory: './tester-é😀'";
        client.response()?.ran()?.expect_failure(reason)?;
    }
    Ok(())
}

// HP-11, CN-16
fn byte_by_byte(s: &Session) -> Verdict {
    for (header, body) in [(CHUNKED, chunks().as_str()), ("Content-Length: 36", BODY)] {
        let mut client = s.client()?;
        for byte in then_last(header, body) {
            client.send(&[byte])?;
            thread::sleep(Duration::from_millis(1));
        }
        expect_both(&mut client, REASON)?;
    }
    Ok(())
}

fn chunked_get(s: &Session) -> Verdict {
    let file = s.file("chunked-get", b"content")?;
    let mut client = s.client()?;
    let mut get = |target: &str| {
        let head = format!("GET {target} HTTP/1.1\r\nHost: x\r\n{CHUNKED}\r\n\r\n");
        client.send(format!("{head}0\r\n\r\n").as_bytes())?;
        client.response()
    };
    get("/")?.expect_json(200, HEALTH)?;
    get("/list/")?.expect_status(200)?;
    get(&format!("/exists/{file}"))?.expect_json(200, &format!("{{\"path\":\"{file}\",\"exists\":true}}"))?;
    let download = get(&format!("/download/{file}"))?;
    download.expect_status(200)?;
    download.expect_body(b"content")?;
    get("/nosuch")?.expect_status(404)
}

// HP-34
fn expect_continue(s: &Session) -> Verdict {
    let mut client = s.client()?;
    let chunks = chunks();
    for (expectation, header, body) in [
        ("100-continue", "Content-Length: 36", BODY),
        ("100-CONTINUE", "Content-Length: 36", BODY),
        ("100-continue", CHUNKED, &chunks),
    ] {
        client.send(format!("{HEAD}Expect: {expectation}\r\n{header}\r\n\r\n").as_bytes())?;
        let interim = client.next_response(Method::Other)?;
        interim.expect_status(100)?;
        interim.expect(interim.response.headers.is_empty(), "no header in an interim response")?;
        client.send(body.as_bytes())?;
        client.next_response(Method::Other)?.ran()?.expect_failure(REASON)?;
    }
    Ok(())
}

// HP-35
fn expect_refused(s: &Session) -> Verdict {
    let mut client = s.client()?;
    client.send(b"POST /nosuch HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")?;
    client.next_response(Method::Other)?.expect_status(404)
}

// HP-32
fn absolute_form(s: &Session) -> Verdict {
    for target in ["http://other/", "http://other:1/exists/", "http://other/list/"] {
        let exchange = s.get(target)?;
        let observed = exchange.response.status == 404;
        s.allow(exchange.expect_status(200), KnownDifference { name: "difference 12", observed })?;
    }
    Ok(())
}

// HP-26
fn unread_body(s: &Session) -> Verdict {
    let inner = "GET /exists/smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
    let length = inner.len();
    for (line, status) in [
        ("POST /nosuch", 404),
        ("PUT /execute", 405),
        ("POST /execute", 422),
        ("GET /list/..", 403),
        ("GET /", 200),
        ("GET /list/", 200),
        ("GET /exists/x", 200),
        ("GET /download/nothing-here", 404),
    ] {
        let mut client = s.client()?;
        client.send(
            format!("{line} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{inner}").as_bytes(),
        )?;
        client.send(LAST_REQUEST)?;
        client.response()?.expect_status(status)?;
        // The server may close the connection or process the actual next request.
        if client.expect_closed().is_err() {
            client.response()?.expect_json(200, HEALTH)?;
            client.expect_closed()?;
        }
    }
    Ok(())
}

// HP-36
fn upgrade(s: &Session) -> Verdict {
    let request = Request::new("GET", "/").header("Connection", "Upgrade").header("Upgrade", "h2c");
    s.send(request)?.expect_status(200)
}

// HP-22
fn many_headers(s: &Session) -> Verdict {
    let mut request = Request::new("GET", "/");
    for _ in 0..60 {
        request = request.header("X-Proxy", "added this");
    }
    s.send(request)?.expect_status(200)
}
