//! Size and nesting limits of a request: exceeding one is a clear 4xx, memory stays small, and no stack
//! overflows.

use kit::Server;
use serde_json::json;

/// More than the server needs, less than a body that it must not buffer.
const MAX_MEMORY_KIB: u64 = 16 << 10;

#[test]
fn too_many_headers_are_431() {
    // HP-22
    let server = Server::start();
    let request_with = |count: usize| {
        let lines = "X-N: y\r\n".repeat(count - 2);
        server.responses(format!("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{lines}\r\n").as_bytes())
    };
    for count in [64, 128] {
        assert_eq!(request_with(count)[0].status, 200, "{count}");
    }
    for count in [129, 1000, 5000] {
        let responses = request_with(count);
        assert_eq!(responses.len(), 1);
        responses[0].check(431, &json!({ "detail": "the request has too many headers" }));
    }
}

#[test]
fn endless_request_head_is_rejected_at_its_limit() {
    // HP-23
    let server = Server::start();
    let filler = "a".repeat(16 << 20);
    let target = server.responses(format!("GET /{filler}").as_bytes());
    target[0].check(414, &json!({ "detail": "the request target is too long" }));
    for request in [
        format!("GET / HTTP/1.1\r\nHost: x\r\nX: {filler}"),
        format!("GET / HTTP/1.1\r\nHost: x\r\n{filler}"),
        format!("GET / HTTP/1.1\r\nHost: x\r\n{}", "X: y\r\n".repeat(3 << 20)),
    ] {
        let responses = server.responses(request.as_bytes());
        assert_eq!(responses.len(), 1);
        responses[0].check(431, &json!({ "detail": "the request head is too large" }));
    }
    let method = server.responses(format!("{filler} / HTTP/1.1\r\n\r\n").as_bytes());
    method[0].check(400, &json!({ "detail": "the method is too long" }));
    assert!(server.peak_memory_kib() < MAX_MEMORY_KIB, "{} KiB", server.peak_memory_kib());
}

#[test]
fn request_head_at_the_limit_works() {
    // HP-23
    let server = Server::start();
    let head = |length: usize| {
        let start = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: ";
        format!("{start}{}\r\n\r\n", "y".repeat(length - start.len() - 4))
    };
    assert_eq!(server.responses(head(64 << 10).as_bytes())[0].status, 200);
    assert_eq!(server.responses(head((64 << 10) + 1).as_bytes())[0].status, 431);
    let target = |length: usize| format!("/exists/{}", "a/".repeat(length))[..length].to_owned();
    assert_eq!(server.get(&target(16 << 10)).json()["exists"], false);
    assert_eq!(server.get(&target((16 << 10) + 1)).status, 414);
}

#[test]
fn oversized_command_is_413_without_buffering() {
    // JS-13
    let server = Server::start();
    let body = format!(r#"{{"command":"{}"}}"#, "a".repeat(100 << 20));
    let rejection = json!({ "detail": "the body is larger than 8388608 bytes" });
    server.execute_text(&body).check(413, &rejection);
    assert!(server.peak_memory_kib() < MAX_MEMORY_KIB, "{} KiB", server.peak_memory_kib());
    let mut client = server.connect();
    client.send(
        b"POST /execute HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
          Transfer-Encoding: chunked\r\n\r\n",
    );
    for piece in body.as_bytes().chunks(1 << 20) {
        client.send(format!("{:x}\r\n", piece.len()).as_bytes());
        client.send(piece);
        client.send(b"\r\n");
    }
    client.send(b"0\r\n\r\n");
    client.response().check(413, &rejection);
    assert!(client.is_closed());
}

#[test]
fn large_command_is_accepted() {
    // JS-13
    let server = Server::start();
    // Longer than a single argument may be (execve(2)): the kernel's error shows that the command reached it.
    let long = format!("true {}", "a".repeat(2 << 20));
    server.execute(&long).check_not_run("[Errno 7] Argument list too long: 'true'");
    server.execute(&format!("true {}", "b ".repeat(50_000))).check("", "", 0);
    let body = |length: usize| {
        let rest = r#"{"command":"true"}"#;
        format!("{}{rest}", " ".repeat(length - rest.len()))
    };
    assert_eq!(server.execute_text(&body(8 << 20)).status, 200);
    assert_eq!(server.execute_text(&body((8 << 20) + 1)).status, 413);
}

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    // RT-01
    let server = Server::start();
    for levels in [1_000, 100_000, 1_000_000] {
        for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
            let deep = format!("{}1{}", open.repeat(levels), close.repeat(levels));
            let response = server.execute_text(&format!(r#"{{"command":"true","x":{deep}}}"#));
            assert_eq!(response.status, 200, "{levels} {open}");
            let response = server.execute_text(&format!(r#"{{"command":{deep}}}"#));
            assert!(matches!(response.status, 422), "{levels} {open}: {response:?}");
            let response = server.execute_text(&deep);
            assert_eq!(response.status, 422, "{levels} {open}");
            let response = server.execute_text(&open.repeat(levels));
            assert_eq!(response.status, 422, "{levels} {open}");
        }
    }
    let path = "a/".repeat(8_000);
    server.get(&format!("/exists/{path}")).check(200, &json!({ "path": path, "exists": false }));
    server.get(&format!("/download/{path}x")).check(404, &json!({ "message": "File not found" }));
    server.get(&format!("/list/{path}")).check(404, &json!({ "message": "Path is not a directory" }));
    let dots = "../".repeat(5_000);
    server.get(&format!("/exists/{dots}")).check(403, &json!({ "message": "Access denied" }));
    let quotes = format!("echo {}", r#"'\"#.repeat(100_000));
    assert_eq!(server.execute(&quotes).exit_code(), 1);
    let part = "--BB\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n\r\n";
    let form = format!("{}--BB--\r\n", part.repeat(5_000));
    let response = server.upload_body("multipart/form-data; boundary=BB", form.as_bytes());
    response.check(400, &json!({ "detail": "the form has too many parts" }));
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn deeply_nested_directories_work_or_are_rejected() {
    // RT-01
    let server = Server::start();
    let deep = "d/".repeat(1_000);
    let response = server.upload(&format!("{deep}f"), b"deep");
    assert_eq!(response.status, 200, "{response:?}");
    assert_eq!(server.get(&format!("/download/{deep}f")).body, b"deep");
    // Longer than PATH_MAX.
    let deeper = "d/".repeat(3_000);
    let response = server.upload(&format!("{deeper}f"), b"deep");
    assert!(matches!(response.status, 200 | 400), "{response:?}");
    assert_eq!(server.get("/").status, 200);
}
