//! HTTP/1.1 as routers, probes and SDKs speak it. Nothing here needs a program.

use std::thread;
use std::time::Duration;

use super::{Check, check};
use crate::answer::Verdict;
use crate::http::Method;
use crate::request::Request;
use crate::session::{Reference, Session};

pub(super) const CHECKS: &[Check] = &[
    check("two requests on one connection", keep_alive),
    check("two requests sent at once are answered in order", pipelining),
    check("Connection: close closes", close),
    check("an HTTP/1.0 client gets a length, no chunks, and the end", http_1_0),
    check("a chunked body, with extension and trailer", chunked_body),
    check("a request that arrives byte by byte", trickled),
    check("a GET with an empty chunked body, as a router sends it", chunked_get),
    check("Expect: 100-continue is answered before the body comes", expect_continue),
    check("Expect: 100-continue gets no 100 where the body is not wanted", expect_refused),
    check("an absolute-form target works", absolute_form),
    check("the body of a refused request is not read as a request", unread_body),
    check("an upgrade that is not offered is ignored", upgrade),
    check("64 headers are fine", many_headers),
];

/// Its length is 36, which is 24 in hexadecimal.
const BODY: &str = r#"{"command":"tester-no-such-program"}"#;
const WHY: &str = "[Errno 2] No such file or directory: 'tester-no-such-program'";
const NO_MORE: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

fn keep_alive(s: &Session) -> Verdict {
    let mut talk = s.talk()?;
    for _ in 0..2 {
        talk.request(Request::json(BODY))?;
        talk.answer()?.ran()?.could_not_run(WHY)?;
        talk.request(Request::new("GET", "/"))?;
        talk.answer()?.status(200)?;
        talk.request(Request::new("GET", "/nosuch"))?;
        talk.answer()?.status(404)?;
    }
    Ok(())
}

// HP-25
fn pipelining(s: &Session) -> Verdict {
    let mut talk = s.talk()?;
    let two = [Request::json(BODY).encode("x"), Request::json(BODY).encode("x"), NO_MORE.to_vec()].concat();
    talk.say(&two)?;
    talk.answer()?.ran()?.could_not_run(WHY)?;
    talk.answer()?.ran()?.could_not_run(WHY)?;
    talk.answer()?.status(200)?;
    talk.end()
}

// CN-09
fn close(s: &Session) -> Verdict {
    let mut talk = s.talk()?;
    talk.say(NO_MORE)?;
    let exchange = talk.answer()?;
    exchange.status(200)?;
    let announced =
        exchange.response.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    exchange.expect(announced, "Connection: close")?;
    talk.end()
}

// HP-28
fn http_1_0(s: &Session) -> Verdict {
    let mut talk = s.talk()?;
    talk.say(b"GET / HTTP/1.0\r\n\r\n")?;
    let exchange = talk.answer()?;
    exchange.status(200)?;
    exchange.header_is("Content-Length", &exchange.response.body.len().to_string())?;
    talk.end()
}

// HP-10
fn chunked() -> Vec<u8> {
    let head = "POST /execute HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    let (first, second) = BODY.split_at(10);
    let body = format!("a;x=y\r\n{first}\r\n1A\r\n{second}\r\n0\r\nX-Trailer: z\r\n\r\n");
    [head.as_bytes(), body.as_bytes(), NO_MORE].concat()
}

fn chunked_body(s: &Session) -> Verdict {
    let mut talk = s.talk()?;
    talk.say(&chunked())?;
    talk.answer()?.ran()?.could_not_run(WHY)?;
    talk.answer()?.status(200)?;
    talk.end()
}

// HP-11
fn trickled(s: &Session) -> Verdict {
    let mut talk = s.talk()?;
    for byte in chunked() {
        talk.say(&[byte])?;
        thread::sleep(Duration::from_millis(1));
    }
    talk.answer()?.ran()?.could_not_run(WHY)?;
    talk.answer()?.status(200)
}

fn chunked_get(s: &Session) -> Verdict {
    let mut talk = s.talk()?;
    for target in ["/", "/list/", "/exists/", "/nosuch"] {
        let request =
            format!("GET {target} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
        talk.say(request.as_bytes())?;
        talk.answer()?.status(if target == "/nosuch" { 404 } else { 200 })?;
    }
    Ok(())
}

// HP-34
fn expect_continue(s: &Session) -> Verdict {
    let mut talk = s.talk()?;
    let length = BODY.len();
    let head = format!(
        "POST /execute HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    talk.say(head.as_bytes())?;
    talk.next_answer(Method::Other)?.status(100)?;
    talk.say(BODY.as_bytes())?;
    talk.next_answer(Method::Other)?.ran()?.could_not_run(WHY)
}

// HP-35
fn expect_refused(s: &Session) -> Verdict {
    let mut talk = s.talk()?;
    talk.say(b"POST /nosuch HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")?;
    talk.next_answer(Method::Other)?.status(404)
}

// HP-32
fn absolute_form(s: &Session) -> Verdict {
    for target in ["http://other/", "http://other:1/exists/", "http://other/list/"] {
        let exchange = s.get(target)?;
        let seen = exchange.response.status == 404;
        s.differs(exchange.status(200), Reference { which: "difference 12", seen })?;
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
        let mut talk = s.talk()?;
        talk.say(
            format!("{line} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{inner}").as_bytes(),
        )?;
        talk.say(NO_MORE)?;
        talk.answer()?.status(status)?;
        // The connection may be closed now, or go on with the request that really came next.
        if talk.end().is_err() {
            talk.answer()?.is(200, r#"{"status":"ok","message":"Sandbox Runtime is active."}"#)?;
        }
    }
    Ok(())
}

// HP-36
fn upgrade(s: &Session) -> Verdict {
    let request = Request::new("GET", "/").header("Connection", "Upgrade").header("Upgrade", "h2c");
    s.send(request)?.status(200)
}

// HP-22
fn many_headers(s: &Session) -> Verdict {
    let mut request = Request::new("GET", "/");
    for _ in 0..60 {
        request = request.header("X-Proxy", "added this");
    }
    s.send(request)?.status(200)
}
