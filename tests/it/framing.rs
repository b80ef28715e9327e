//! Request framing: input that two parsers could read differently is rejected, and nothing after it is parsed
//! as a request.

use kit::{Response, Server};
use serde_json::{Value, json};
use std::time::Duration;

/// A body whose command creates a file, and its length in decimal and in hexadecimal.
const BODY: &str = r#"{"command":"touch ran"}"#;
const LENGTH: &str = "23";
const SIZE: &str = "17";

/// A request that must get no response when it follows a rejected one.
const SMUGGLED: &str = "GET /exists/smuggled HTTP/1.1\r\nHost: x\r\n\r\n";

const LAST: &str = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

/// `POST /execute` with these header lines and this body.
fn execute(lines: &str, body: &str) -> String {
    format!("POST /execute HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{lines}\r\n{body}")
}

fn chunked(body: &str) -> String {
    execute("Transfer-Encoding: chunked\r\n", body)
}

fn health() -> Value {
    json!({ "status": "ok", "message": "Sandbox Runtime is active." })
}

/// The request gets exactly this response, the connection closes, nothing runs, and the bytes that follow are
/// ignored.
#[track_caller]
fn check_rejected(server: &Server, request: impl AsRef<[u8]>, status: u16, message: &str) {
    let request = request.as_ref();
    let responses = server.responses(&[request, SMUGGLED.as_bytes()].concat());
    let shown = request.escape_ascii().to_string();
    let shown = shown.get(..300).unwrap_or(&shown);
    let [response] = responses.as_slice() else { panic!("{shown}: {responses:?}") };
    assert_eq!((response.status, response.json()), (status, json!({ "detail": message })), "{shown}");
    assert_eq!(response.header("connection"), Some("close"), "{shown}");
    assert!(!server.base().join("ran").exists(), "{shown}");
}

/// The request runs its command, and the next request on the connection gets a response too.
#[track_caller]
fn check_runs(server: &Server, request: &str) {
    let responses = server.responses(format!("{request}{LAST}").as_bytes());
    let [ran, last] = responses.as_slice() else { panic!("{request:?}: {responses:?}") };
    ran.check(200, &json!({ "stdout": "", "stderr": "", "exit_code": 0 }));
    last.check(200, &health());
    std::fs::remove_file(server.base().join("ran")).unwrap();
}

const BOTH: &str = "there are both a Content-Length and a Transfer-Encoding";
const NO_LENGTH: &str = "the Content-Length is not a number";
const NOT_CHUNKED: &str = "the Transfer-Encoding is not chunked";

#[test]
fn content_length_with_transfer_encoding_is_rejected() {
    // HP-01
    let server = Server::start();
    let lines = [
        "Content-Length: 23\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 23\r\n",
        "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
        "content-length: 5\r\nTRANSFER-ENCODING: CHUNKED\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: identity\r\n",
        "Content-Length:\r\nTransfer-Encoding: chunked\r\n",
    ];
    for lines in lines {
        check_rejected(&server, execute(lines, &format!("{SIZE}\r\n{BODY}\r\n0\r\n\r\n")), 400, BOTH);
        check_rejected(&server, execute(lines, "0\r\n\r\n"), 400, BOTH);
    }
}

#[test]
fn duplicate_content_length_is_rejected_even_if_equal() {
    // HP-04
    let server = Server::start();
    for (first, second) in [("23", "5"), ("5", "23"), ("23", "23"), ("0", "23"), ("23", "x")] {
        let lines = format!("Content-Length: {first}\r\nX-Between: y\r\ncontent-length: {second}\r\n");
        check_rejected(&server, execute(&lines, BODY), 400, "there are two Content-Length headers");
    }
    for value in ["23, 23", "23,23", "23 23", "23;23"] {
        check_rejected(&server, execute(&format!("Content-Length: {value}\r\n"), BODY), 400, NO_LENGTH);
    }
}

#[test]
fn invalid_content_length_is_rejected() {
    // HP-05
    let server = Server::start();
    let values = [
        "-1", "-23", "+23", "0x17", "23a", "a", "2 3", "", "23.0", "2e1", "1_0", "٢٣", "23\u{a0}", "\"23\"",
        "23-",
    ];
    for value in values {
        check_rejected(&server, execute(&format!("Content-Length: {value}\r\n"), BODY), 400, NO_LENGTH);
    }
    // 2^64 and above: valid, but too large.
    for value in ["18446744073709551616", "99999999999999999999999", &"9".repeat(4000)] {
        let request = execute(&format!("Content-Length: {value}\r\n"), BODY);
        check_rejected(&server, request, 413, "the Content-Length is too large");
    }
    for value in ["8388609", "9223372036854775808", "18446744073709551615"] {
        let request = execute(&format!("Content-Length: {value}\r\n"), BODY);
        check_rejected(&server, request, 413, "the body is larger than 8388608 bytes");
    }
}

#[test]
fn content_length_allows_leading_zeros_and_whitespace() {
    // HP-05
    let server = Server::start();
    for value in [LENGTH, "00023", "  23", "23 \t", "0000000000000000000000000000000000000023"] {
        check_runs(&server, &execute(&format!("Content-Length: {value}\r\n"), BODY));
    }
}

#[test]
fn invalid_chunk_size_is_rejected() {
    // HP-06
    let server = Server::start();
    let message = "a chunk size is not a hexadecimal number";
    for size in
        ["-17", "+17", "0x17", "1_7", "17 ", " 17", "17\t", "17junk", "zz", "", ";a=b", "1\u{0}7", "١٧"]
    {
        let request = chunked(&format!("{size}\r\n{BODY}\r\n0\r\n\r\n"));
        check_rejected(&server, request, 400, message);
    }
    for size in ["10000000000000017", "00000000000000017", "FFFFFFFFFFFFFFFF", "ffffffffffffffff1", "800001"]
    {
        let request = chunked(&format!("{size}\r\n{BODY}\r\n0\r\n\r\n"));
        check_rejected(&server, request, 413, "the body is larger than 8388608 bytes");
    }
}

#[test]
fn ambiguous_chunk_framing_is_rejected() {
    // HP-08
    let server = Server::start();
    let control = "chunk framing has a control byte or a line end in the wrong place";
    let longer = "chunk data is longer than its size";
    let size = "a chunk size is not a hexadecimal number";
    let rows = [
        ("5\r\nAAAAAXXX\r\n0\r\n\r\n".to_owned(), longer),
        (format!("16\r\n{BODY}\r\n0\r\n\r\n"), longer),
        (format!("{SIZE}\r\n{BODY}\n0\r\n\r\n"), longer),
        (format!("{SIZE}\r\n{BODY}0\r\n\r\n"), longer),
        (format!("{SIZE}\r\n{BODY}\r0\r\n\r\n"), control),
        (format!("{SIZE}\n{BODY}\r\n0\r\n\r\n"), size),
        (format!("{SIZE}\r{BODY}\r\n0\r\n\r\n"), control),
        (format!("{SIZE};a=b\n{BODY}\r\n0\r\n\r\n"), control),
        (format!("{SIZE};a\rb\r\n{BODY}\r\n0\r\n\r\n"), control),
        (format!("{SIZE};a\u{0}b\r\n{BODY}\r\n0\r\n\r\n"), control),
        (format!("{SIZE};{}\r\n{BODY}\r\n0\r\n\r\n", "a".repeat(1025)), "a chunk extension is too long"),
        (format!("{SIZE}\r\n{BODY}\r\n\r\n0\r\n\r\n"), size),
        (format!("{SIZE}\r\n{BODY}\r\n0\n\r\n"), size),
        (format!("{SIZE}\r\n{BODY}\r\n0\r\n\n"), "a trailer is not a header line"),
        (format!("{SIZE}\r\n{BODY}\r\n0\r\nno colon\r\n\r\n"), "a trailer is not a header line"),
        (format!("{SIZE}\r\n{BODY}\r\n0\r\n: empty\r\n\r\n"), "a trailer is not a header line"),
        (format!("{SIZE}\r\n{BODY}\r\n0\r\nX : y\r\n\r\n"), "a trailer is not a header line"),
        (format!("{SIZE}\r\n{BODY}\r\n0\r\nX: {}\r\n\r\n", "y".repeat(17_000)), "the trailers are too large"),
    ];
    for (body, message) in rows {
        check_rejected(&server, chunked(&body), 400, message);
    }
}

#[test]
fn request_split_at_any_offset_parses_the_same() {
    // CN-16
    let server = Server::start();
    let mut client = server.connect();
    let body = r#"{"command":""}"#;
    let requests = [
        execute(&format!("Content-Length: {}\r\n", body.len()), body),
        chunked(&format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())),
    ];
    let expected = json!({
        "stdout": "", "stderr": "Failed to execute command: list index out of range", "exit_code": 1
    });
    for request in requests {
        for at in 1..request.len() {
            let (front, back) = request.as_bytes().split_at(at);
            client.send(front);
            std::thread::sleep(Duration::from_micros(200));
            client.send(back);
            client.response().check(200, &expected);
        }
    }
}

#[test]
fn transfer_coding_other_than_chunked_is_rejected() {
    let server = Server::start();
    let body = format!("{SIZE}\r\n{BODY}\r\n0\r\n\r\n");
    for value in [
        "gzip, chunked",
        "chunked, chunked",
        "chunked, identity",
        "identity",
        "gzip",
        "xchunked",
        "chunkedx",
        "chunked;q=1",
        "\"chunked\"",
        "",
        "chunked,",
        ",chunked",
        "chunk ed",
    ] {
        check_rejected(&server, execute(&format!("Transfer-Encoding: {value}\r\n"), &body), 400, NOT_CHUNKED);
    }
    let twice = "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n";
    check_rejected(&server, execute(twice, &body), 400, "there are two Transfer-Encoding headers");
}

#[test]
fn http_1_0_with_transfer_encoding_is_rejected() {
    // HP-13
    let server = Server::start();
    let request = format!(
        "POST /execute HTTP/1.0\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\
         Connection: keep-alive\r\n\r\n{SIZE}\r\n{BODY}\r\n0\r\n\r\n"
    );
    check_rejected(&server, request, 400, "an HTTP/1.0 request has a Transfer-Encoding");
}

#[test]
fn folded_header_is_rejected() {
    // HP-16
    let server = Server::start();
    for lines in [
        "X-A: b\r\n Content-Length: 0\r\nContent-Length: 23\r\n",
        "X-A: b\r\n\tc\r\nContent-Length: 23\r\n",
        "Content-Length:\r\n 23\r\n",
        "Content-Length: 2\r\n 3\r\n",
        "Transfer-Encoding:\r\n chunked\r\n",
    ] {
        check_rejected(&server, execute(lines, BODY), 400, "a header's name is malformed");
    }
}

#[test]
fn malformed_header_line_is_rejected() {
    // HP-17
    let server = Server::start();
    let (name, value) = ("a header's name is malformed", "a header's value is malformed");
    let line_end = "a line end is malformed";
    let bare = "a line of the head ends in a bare line feed";
    let rows: [(&[u8], &str); 17] = [
        (b"X-A: b\0c\r\n", value),
        (b"X-A: b\x01c\r\n", value),
        (b"X-A: b\x7fc\r\n", value),
        (b"X-A: b\x1bc\r\n", value),
        (b"X-A: b\rc\r\n", value),
        (b"X-A: b\r\r\n", value),
        (b"X-A: b\n", bare),
        (b"X-A: b\nContent-Length: 5\r\n", bare),
        (b"X\xffA: b\r\n", name),
        (b"X A: b\r\n", name),
        (b"X-A : b\r\n", name),
        (b"Content-Length : 5\r\n", name),
        (b"Transfer-Encoding\t: chunked\r\n", name),
        (b"X(A): b\r\n", name),
        (b": v\r\n", name),
        (b"garbage\r\n", name),
        (b" X-A: b\r\n", name),
    ];
    for (lines, message) in rows {
        let request = [b"GET / HTTP/1.1\r\nHost: x\r\n", lines, b"\r\n"].concat();
        let responses = server.responses(&request);
        let [response] = responses.as_slice() else { panic!("{}: {responses:?}", lines.escape_ascii()) };
        assert_eq!(response.status, 400, "{}", lines.escape_ascii());
        let detail = response.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail == message || detail == line_end, "{}: {detail}", lines.escape_ascii());
    }
}

#[test]
fn unknown_header_is_ignored() {
    // HP-17, HP-36
    let server = Server::start();
    for lines in [
        &b"X: \xc3\xa9\r\n"[..],
        b"X: \xff\xfe\r\n",
        b"X:\r\n",
        b"X:\t y\t\r\n",
        b"X!#$%&'*+-.^_`|~9: y\r\n",
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
        b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n",
        b"Expect: something\r\n",
        b"TE: trailers\r\nTrailer: X\r\n",
    ] {
        let request = [b"GET / HTTP/1.1\r\nHost: x\r\n", lines, b"\r\n", LAST.as_bytes()].concat();
        let responses = server.responses(&request);
        assert_eq!(responses.len(), 2, "{}", lines.escape_ascii());
        responses.iter().for_each(|response| response.check(200, &health()));
    }
}

#[test]
fn unsupported_version_is_rejected_with_a_full_response() {
    // HP-20
    let server = Server::start();
    for line in [
        "GET /",
        "GET / HTTP/2.0",
        "GET / HTTP/1.2",
        "GET / HTTP/11.1",
        "GET / http/1.1",
        "GET / HTTP/0.9",
        "GET / HTTP/1.1 ",
        "GET  / HTTP/1.1",
        "GET / HTTP/1.1 x",
        "GET / HTTP/1.10",
        "GET / HTTP/01.1",
        "GET / HTTP/1",
        "GET / HTTP/",
        "GET / FTP/1.1",
        "GET",
        "GET\t/\tHTTP/1.1",
        "PRI * HTTP/2.0",
        " GET / HTTP/1.1",
    ] {
        let sent = server.raw(format!("{line}\r\nHost: x\r\n\r\n{SMUGGLED}").as_bytes());
        let sent = String::from_utf8(sent).unwrap();
        assert!(sent.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{line}: {sent}");
        assert_eq!(sent.matches("HTTP/1.1 ").count(), 1, "{line}: {sent}");
        let (_, body) = sent.split_once("\r\n\r\n").unwrap();
        assert!(serde_json::from_str::<Value>(body).unwrap()["detail"].is_string(), "{line}: {sent}");
    }
}

#[test]
fn non_http_bytes_are_rejected_immediately() {
    let server = Server::start();
    for bytes in [&b"\x16\x03\x01\x02\x00\x01\x00"[..], b"\0", b"\x80\x80", b"\n", b"\r\n\r\n\r\n", b"{}"] {
        let responses = server.responses(bytes);
        assert_eq!(responses.len(), 1, "{}", bytes.escape_ascii());
        responses[0].check(400, &json!({ "detail": "this is not an HTTP request" }));
    }
}

#[test]
fn exactly_one_valid_host_header_is_required() {
    let server = Server::start();
    for (lines, message) in [
        ("", "there is no Host header"),
        ("Host: a\r\nHost: b\r\n", "there are two Host headers"),
        ("Host: a\r\nhost: a\r\n", "there are two Host headers"),
        ("Host: a, b\r\n", "the Host header is not a host"),
        ("Host: a b\r\n", "the Host header is not a host"),
        ("Host: a/b\r\n", "the Host header is not a host"),
        ("Host: user@a\r\n", "the Host header is not a host"),
        ("Host: <script>\r\n", "the Host header is not a host"),
    ] {
        check_rejected(&server, format!("GET / HTTP/1.1\r\n{lines}\r\n"), 400, message);
    }
    for host in ["", "a", "a:8888", "[::1]:8888", "sandbox.default.svc.cluster.local"] {
        let responses = server
            .responses(format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes());
        responses[0].check(200, &health());
    }
}

#[test]
fn unread_body_is_never_parsed_as_a_request() {
    // HP-26
    let server = Server::start();
    let not_found = json!({ "detail": "Not Found" });
    let not_allowed = json!({ "detail": "Method Not Allowed" });
    let type_wrong = json!({ "detail": [{
        "type": "model_attributes_type",
        "loc": ["body"],
        "msg": "Content-Type must be application/json",
    }] });
    let file_missing =
        json!({ "detail": [{ "type": "missing", "loc": ["body", "file"], "msg": "Field required" }] });
    let rows = [
        ("POST /nosuch", 404, &not_found),
        ("GET /nosuch", 404, &not_found),
        ("POST /execute/", 404, &not_found),
        ("POST /", 405, &not_allowed),
        ("DELETE /list/x", 405, &not_allowed),
        ("GET /execute", 405, &not_allowed),
        ("GET /upload", 405, &not_allowed),
        ("PUT /download/x", 405, &not_allowed),
        ("POST /execute", 422, &type_wrong),
        ("POST /upload", 422, &file_missing),
    ];
    let length = SMUGGLED.len();
    for (line, status, json) in rows {
        for (framing, body) in [
            (format!("Content-Length: {length}"), SMUGGLED.to_owned()),
            ("Transfer-Encoding: chunked".to_owned(), format!("{length:x}\r\n{SMUGGLED}\r\n0\r\n\r\n")),
        ] {
            let responses = server
                .responses(format!("{line} HTTP/1.1\r\nHost: x\r\n{framing}\r\n\r\n{body}{LAST}").as_bytes());
            let [rejection, rest @ ..] = responses.as_slice() else { panic!("{line}: no response") };
            assert_eq!(rejection.status, status, "{line}");
            assert_eq!(&rejection.json(), json, "{line}");
            check_closed_or_health(rest, line);
        }
    }
}

#[track_caller]
fn check_closed_or_health(responses: &[Response], line: &str) {
    match responses {
        [] => {}
        [last] => last.check(200, &health()),
        more => panic!("{line}: {more:?}"),
    }
}

#[test]
fn truncated_request_is_rejected_and_nothing_runs() {
    let server = Server::start();
    for request in [
        execute("Content-Length: 24\r\n", BODY),
        chunked(&format!("{SIZE}\r\n{BODY}\r\n")),
        chunked(&format!("{SIZE}\r\n{BODY}\r\n0\r\n")),
        chunked(&format!("18\r\n{BODY}")),
        chunked(""),
    ] {
        let mut client = server.connect();
        client.send(request.as_bytes());
        client.stream.shutdown(std::net::Shutdown::Write).unwrap();
        let responses = client.responses();
        assert_eq!(responses.len(), 1, "{request:?}");
        responses[0].check(400, &json!({ "detail": "connection closed while reading the request body" }));
        assert!(!server.base().join("ran").exists(), "{request:?}");
    }
    let mut client = server.connect();
    client.send(b"GET / HTTP/1.1\r\nHo");
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    client.responses()[0]
        .check(400, &json!({ "detail": "connection closed while reading the request headers" }));
}

#[test]
fn http_1_0_response_has_a_length_and_closes_by_default() {
    // HP-28
    let server = Server::start();
    for (lines, connection) in [
        ("TE: identity;q=1, chunked;q=0\r\nConnection: TE, close\r\n", "close"),
        ("", "close"),
        ("Connection: keep-alive\r\n", "keep-alive"),
        ("Connection: Keep-Alive, TE\r\n", "keep-alive"),
        ("Connection: keep-alive, close\r\n", "close"),
    ] {
        let mut client = server.connect();
        client.send(format!("GET / HTTP/1.0\r\n{lines}\r\n").as_bytes());
        let response = client.response();
        response.check(200, &health());
        assert_eq!(response.header("transfer-encoding"), None, "{lines:?}");
        assert_eq!(response.header("content-length"), Some(response.body.len().to_string().as_str()));
        assert_eq!(response.header("connection"), Some(connection), "{lines:?}");
        if connection == "close" {
            assert!(client.is_closed(), "{lines:?}");
        } else {
            client.send(b"GET / HTTP/1.0\r\n\r\n");
            client.response().check(200, &health());
        }
    }
}

#[test]
fn head_has_the_headers_of_get_and_no_body() {
    // HP-29
    let server = Server::start();
    std::fs::write(server.base().join("f"), "content").unwrap();
    let mut client = server.connect();
    for target in
        ["/", "/list/", "/list/none", "/exists/f", "/exists/%2e%2e", "/download/f", "/download/none"]
    {
        client.send_request("GET", target, &[], b"");
        let whole = client.response();
        client.send_request("HEAD", target, &[], b"");
        let head = client.response_to("HEAD");
        assert_eq!((head.status, &head.headers), (whole.status, &whole.headers), "{target}");
    }
    // If any of them had a body, this response could not be parsed.
    client.send_request("GET", "/", &[("Connection", "close")], b"");
    client.response().check(200, &health());
    assert!(client.is_closed());
    for target in ["/execute", "/upload", "/nosuch"] {
        let sent =
            server.raw(format!("HEAD {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes());
        assert!(sent.ends_with(b"\r\n\r\n"), "{target}");
    }
}

#[test]
fn extra_or_missing_slash_never_redirects() {
    // HP-31
    let server = Server::start();
    server.get("/list").check(200, &json!([]));
    server.get("/list/").check(200, &json!([]));
    server.get("/exists").check(200, &json!({ "path": "", "exists": true }));
    server.get("/download").check(404, &json!({ "message": "File not found" }));
    for (method, target) in
        [("POST", "/execute/"), ("POST", "/upload/"), ("GET", "//"), ("GET", "//evil.example/list/")]
    {
        let response =
            server.request(method, target, &[("Content-Type", "application/json")], BODY.as_bytes());
        response.check(404, &json!({ "detail": "Not Found" }));
        assert_eq!(response.header("location"), None);
    }
    assert!(!server.base().join("ran").exists());
}

#[test]
fn wrong_method_is_405_with_allow() {
    let server = Server::start();
    for (target, allow) in [
        ("/", "GET, HEAD"),
        ("/list/x", "GET, HEAD"),
        ("/exists/x", "GET, HEAD"),
        ("/download/x", "GET, HEAD"),
        ("/execute", "POST"),
        ("/upload", "POST"),
    ] {
        for method in ["DELETE", "PUT", "OPTIONS", "PATCH", "BREW", "get", "post", "TRACE"] {
            let response = server.request(method, target, &[], b"");
            response.check(405, &json!({ "detail": "Method Not Allowed" }));
            assert_eq!(response.header("allow"), Some(allow), "{method} {target}");
        }
    }
}

#[test]
fn absolute_form_target_works_like_a_path() {
    // HP-32
    let server = Server::start();
    std::fs::create_dir(server.base().join("d")).unwrap();
    let listing = server.get("/list/").json();
    for target in ["http://other/list/", "HTTP://other:80/list", "https://[::1]:8888/list/?x=http://y"] {
        server.get(target).check(200, &listing);
    }
    for target in ["http://other", "http://other?x", "http://other/"] {
        server.get(target).check(200, &health());
    }
    for target in
        ["ftp://other/list/", "other/list", "*", "http://", "http:///list/", "http://user@other/list/", "x"]
    {
        assert_eq!(server.get(target).status, 400, "{target}");
    }
    assert_eq!(server.request("CONNECT", "other:443", &[], b"").status, 400);
}

#[test]
fn query_and_fragment_are_not_part_of_the_path() {
    // HP-33
    let server = Server::start();
    std::fs::write(server.base().join("a?b"), "question").unwrap();
    std::fs::write(server.base().join("c#d"), "number").unwrap();
    server.get("/?probe=1").check(200, &health());
    server.get("/#x").check(200, &health());
    let exists = |target: &str, path: &str, exists: bool| {
        server.get(target).check(200, &json!({ "path": path, "exists": exists }));
    };
    exists("/exists/f?x=/../..", "f", false);
    exists("/exists/f?", "f", false);
    exists("/exists/f#/../..", "f", false);
    exists("/exists/f?a?b", "f", false);
    exists("/exists/a%3Fb", "a?b", true);
    exists("/exists/a%3fb?c", "a?b", true);
    exists("/exists/c%23d", "c#d", true);
    assert_eq!(server.get("/download/a%3Fb").body, b"question");
}

#[test]
fn no_100_continue_when_the_client_does_not_wait() {
    // HP-34
    let server = Server::start();
    let mut client = server.connect();
    client.send(execute(&format!("Expect: 100-continue\r\nContent-Length: {LENGTH}\r\n"), BODY).as_bytes());
    assert_eq!(client.response().status, 200);
    client.send(b"GET / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n");
    client.response().check(200, &health());
    client.send(
        b"POST /execute HTTP/1.0\r\nContent-Type: application/json\r\n\
          Expect: 100-continue\r\nContent-Length: 23\r\n\r\n",
    );
    client.send(BODY.as_bytes());
    assert_eq!(client.response().status, 200);
}

#[test]
fn no_100_continue_for_a_body_that_will_be_rejected() {
    // HP-35
    let server = Server::with(&[("SANDBOX_MAX_UPLOAD_BYTES", "1000")]);
    let form = "Content-Type: multipart/form-data; boundary=BB";
    for (line, lines, status) in [
        ("POST /upload", form, 413),
        ("POST /execute", "Content-Type: application/json", 413),
        ("POST /execute", "Content-Type: text/plain", 422),
        ("POST /upload", "Content-Type: multipart/form-data", 400),
        ("POST /upload", "Content-Type: text/plain", 422),
        ("POST /nosuch", form, 404),
        ("POST /list/x", form, 405),
        ("GET /list/x", form, 413),
    ] {
        let request = format!(
            "{line} HTTP/1.1\r\nHost: x\r\n{lines}\r\n\
             Expect: 100-continue\r\nContent-Length: 99999999999\r\n\r\n"
        );
        let mut client = server.connect();
        client.send(request.as_bytes());
        let response = client.response();
        assert_eq!(response.status, status, "{line} {lines}");
        assert_eq!(response.header("connection"), Some("close"), "{line} {lines}");
        assert!(client.is_closed(), "{line} {lines}");
    }
}

#[test]
fn raw_bytes_in_a_target_are_literal_or_rejected() {
    // HP-38
    let server = Server::start();
    std::fs::write(server.base().join("café"), "x").unwrap();
    let raw = |bytes: &[u8]| {
        let request = [b"GET /exists/", bytes, b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"].concat();
        let mut responses = server.responses(&request);
        assert_eq!(responses.len(), 1);
        responses.remove(0)
    };
    raw(b"caf%C3%A9").check(200, &json!({ "path": "café", "exists": true }));
    let plain = raw("café".as_bytes());
    match plain.status {
        400 => {}
        _ => plain.check(200, &json!({ "path": "café", "exists": true })),
    }
    let not_utf8 = raw(b"caf\xe9");
    match not_utf8.status {
        400 => assert!(not_utf8.json()["detail"].is_string()),
        _ => not_utf8.check(200, &json!({ "path": "caf\u{fffd}", "exists": false })),
    }
    for bytes in [&b"a\0b"[..], b"a\x01b", b"a\x7fb", b"a\tb"] {
        assert_eq!(raw(bytes).status, 400, "{}", bytes.escape_ascii());
    }
    server.get("/").check(200, &health());
}
