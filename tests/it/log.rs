//! The log: one line per event, no forged lines, no secrets, and no effect on the server when it is not read.

use kit::{Server, TIMEOUT, TempDir, binary, eventually};
use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

/// Sends requests that try to inject log lines.
fn forge(server: &Server) {
    for target in [
        "/exists/%0aFAKE%20200%1b[2J",
        "/exists/%0d%0aFAKE",
        "/download/%0aFAKE",
        "/list/%c2%85FAKE%e2%80%a8FAKE",
        "/nosuch%0aFAKE",
        "/exists/%0asandbox-runtime:%20error:%20FAKE",
    ] {
        server.request("GET", target, &[("User-Agent", "a\u{1b}]0;FAKE")], b"");
        server.request("GET", target, &[("Referer", "FAKE")], b"");
    }
    server.upload("a%0AERROR FAKE", b"x");
    server.upload("a\nERROR FAKE", b"x");
    server.upload("../%0AFAKE", b"x");
    server.execute("echo 'a\nFAKE'");
    server.execute("no-such-program\nFAKE");
    server.execute_text("{\"command\nFAKE\": 1}");
    server.raw(b"FAKE\x1b[2J\r\nFAKE\r\n\r\n");
    server.raw(b"GET /FAKE HTTP/1.1\r\nHost: x\r\nX: a\x07FAKE\r\n\r\n");
}

#[test]
fn log_line_cannot_be_forged() {
    // LG-01
    for level in ["debug", "info"] {
        let server = Server::with(&[("SANDBOX_LOG", level)]);
        forge(&server);
        // Once the line of the last request is logged, so are all others.
        server.get("/exists/last");
        if level == "debug" {
            assert!(eventually(|| server.log().contains("/exists/last")), "{}", server.log());
        }
        let log = server.log();
        for line in log.lines() {
            assert!(line.starts_with("sandbox-runtime: "), "{level}: {line:?}");
            assert!(!line.starts_with("sandbox-runtime: error: "), "{level}: {line:?}");
            let is_plain =
                |character: char| !character.is_control() && !matches!(character, '\u{2028}' | '\u{2029}');
            assert!(line.chars().all(is_plain), "{level}: {line:?}");
        }
    }
}

#[test]
fn debug_level_logs_one_line_per_request() {
    let server = Server::with(&[("SANDBOX_LOG", "debug")]);
    let mut client = server.connect();
    for _ in 0..5 {
        client.send_request("GET", "/exists/this%0aone", &[], b"");
        assert_eq!(client.response().status, 200);
    }
    assert!(eventually(|| server.log().matches("/exists/this\\none 200").count() == 5), "{}", server.log());
}

#[test]
fn default_level_logs_no_requests() {
    let server = Server::start();
    let before = server.log();
    forge(&server);
    assert_eq!(server.log(), before);
}

#[test]
fn secrets_are_not_logged_at_any_level() {
    // LG-02
    for level in ["info", "debug"] {
        let server = Server::with(&[("SANDBOX_LOG", level)]);
        let headers = [
            ("Content-Type", "application/json"),
            ("Authorization", "Bearer t0ken"),
            ("X-API-Key", "t0ken"),
            ("Cookie", "a=t0ken"),
        ];
        for command in
            ["echo s3cret", "curl -H 'Authorization: Bearer s3cret' x", "s3cret-program", "echo 's3cret"]
        {
            let body = json!({ "command": command }).to_string();
            server.request("POST", "/execute?key=qu3ry", &headers, body.as_bytes());
        }
        server.request("POST", "/execute", &headers, b"{\"command\": s3cret}");
        server.request("GET", "/list/?token=qu3ry", &headers, b"");
        server.request("GET", "http://user:qu3ry@host/list/#qu3ry", &headers, b"");
        server.raw(b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t0ken\r\nBad Header: t0ken\r\n\r\n");
        server.upload("f", b"s3cret");
        server.get("/exists/last");
        if level == "debug" {
            assert!(eventually(|| server.log().contains("/exists/last")), "{}", server.log());
        }
        for secret in ["s3cret", "t0ken", "qu3ry"] {
            assert!(!server.log().contains(secret), "{level} {secret}: {}", server.log());
        }
    }
}

#[test]
fn unread_log_never_blocks_and_reports_dropped_lines() {
    let base = TempDir::new();
    let mut child = binary()
        .env("SANDBOX_BASE_DIR", base.path())
        .env("SANDBOX_LISTEN", "127.0.0.1:0")
        .env("SANDBOX_LOG", "debug")
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    log.read_line(&mut line).unwrap();
    let (_, rest) = line.split_once("http://").unwrap();
    let address = rest.split(',').next().unwrap().to_owned();
    let request = |path: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let head = format!("GET /exists/{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).unwrap();
        assert!(response.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&response));
    };
    // Many times the capacity of a pipe (64 KiB, pipe(7)).
    let long = "x".repeat(3000);
    (0..200).for_each(|_| request(&long));
    let reader = std::thread::spawn(move || {
        let mut lines = Vec::new();
        for line in log.lines().map_while(Result::ok) {
            lines.push(line);
            if lines.last().is_some_and(|line| line.contains("were dropped")) {
                break;
            }
        }
        lines
    });
    // The pipe is read now. The count of dropped lines precedes one of the next lines that fit.
    let mut rounds = 0;
    while !reader.is_finished() && rounds < 1000 {
        request("again");
        rounds += 1;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let lines = reader.join().unwrap();
    let last = lines.last().unwrap();
    assert!(
        last.starts_with("sandbox-runtime: warn: ") && last.ends_with(" log lines were dropped"),
        "{last}"
    );
    assert!(lines.iter().all(|line| line.starts_with("sandbox-runtime: ")), "a line was truncated");
}

#[test]
fn closed_log_pipe_does_not_stop_the_server() {
    let base = TempDir::new();
    let mut command = binary();
    command
        .env("SANDBOX_BASE_DIR", base.path())
        .env("SANDBOX_LOG", "debug")
        .env("SANDBOX_LISTEN", "127.0.0.1:0");
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    log.read_line(&mut line).unwrap();
    drop(log);
    let (_, rest) = line.split_once("http://").unwrap();
    let address = rest.split(',').next().unwrap();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).unwrap();
        assert!(response.starts_with(b"HTTP/1.1 200 "));
    }
    assert!(child.try_wait().unwrap().is_none(), "the server has exited");
    child.kill().unwrap();
    child.wait().unwrap();
}
