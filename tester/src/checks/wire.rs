//! HTTP/1.1 as routers, probes and SDKs use it. No check needs a program.

use std::thread;
use std::time::Duration;

use super::{Check, check};
use crate::http::Method;
use crate::request::Request;
use crate::response::Verdict;
use crate::session::{KnownDifference, Session};

pub(super) const CHECKS: &[Check] = &[
    check("several requests on one connection", keep_alive),
    check("pipelined requests are processed in order", pipelining),
    check("Connection: close closes the connection", close),
    check("an HTTP/1.0 client gets a length, no chunks, and a closed connection", http_1_0),
    check("a chunked body with an extension and a trailer is accepted", chunked_body),
    check("a request that arrives byte by byte is accepted", byte_by_byte),
    check("a GET with an empty chunked body is accepted, as one router sends it", chunked_get),
    check("Expect: 100-continue is confirmed before the body is sent", expect_continue),
    check("Expect: 100-continue is not confirmed for a body that is not read", expect_refused),
    check("an absolute-form target is accepted", absolute_form),
    check("the body of a refused request is not parsed as a request", unread_body),
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
    let two =
        [Request::json(BODY).encode("x"), Request::json(BODY).encode("x"), LAST_REQUEST.to_vec()].concat();
    client.send(&two)?;
    client.response()?.ran()?.expect_failure(REASON)?;
    client.response()?.ran()?.expect_failure(REASON)?;
    client.response()?.expect_status(200)?;
    client.expect_closed()
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

// HP-10
fn chunked() -> Vec<u8> {
    let head = "POST /execute HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
                Transfer-Encoding: chunked\r\n\r\n";
    let (first, second) = BODY.split_at(10);
    let body = format!("a;x=y\r\n{first}\r\n1A\r\n{second}\r\n0\r\nX-Trailer: z\r\n\r\n");
    [head.as_bytes(), body.as_bytes(), LAST_REQUEST].concat()
}

fn chunked_body(s: &Session) -> Verdict {
    let mut client = s.client()?;
    client.send(&chunked())?;
    client.response()?.ran()?.expect_failure(REASON)?;
    client.response()?.expect_status(200)?;
    client.expect_closed()
}

// HP-11
fn byte_by_byte(s: &Session) -> Verdict {
    let mut client = s.client()?;
    for byte in chunked() {
        client.send(&[byte])?;
        thread::sleep(Duration::from_millis(1));
    }
    client.response()?.ran()?.expect_failure(REASON)?;
    client.response()?.expect_status(200)
}

fn chunked_get(s: &Session) -> Verdict {
    let mut client = s.client()?;
    for target in ["/", "/list/", "/exists/", "/nosuch"] {
        let request =
            format!("GET {target} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
        client.send(request.as_bytes())?;
        client.response()?.expect_status(if target == "/nosuch" { 404 } else { 200 })?;
    }
    Ok(())
}

// HP-34
fn expect_continue(s: &Session) -> Verdict {
    let mut client = s.client()?;
    let length = BODY.len();
    let head = format!(
        "POST /execute HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    client.send(head.as_bytes())?;
    client.next_response(Method::Other)?.expect_status(100)?;
    client.send(BODY.as_bytes())?;
    client.next_response(Method::Other)?.ran()?.expect_failure(REASON)
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
    for (line, status) in
        [("POST /nosuch", 404), ("PUT /execute", 405), ("POST /execute", 422), ("GET /list/..", 403)]
    {
        let mut client = s.client()?;
        client.send(
            format!("{line} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{inner}").as_bytes(),
        )?;
        client.send(LAST_REQUEST)?;
        client.response()?.expect_status(status)?;
        // The server may close the connection or process the actual next request.
        if client.expect_closed().is_err() {
            client
                .response()?
                .expect_json(200, r#"{"status":"ok","message":"Sandbox Runtime is active."}"#)?;
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
