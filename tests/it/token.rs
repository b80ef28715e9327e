//! The optional token: which requests need it, and that neither commands nor the log reveal it.

use kit::{Response, Server};
use serde_json::json;
use std::fs;

const SECRET: &str = "t0p-s3cret";

fn server() -> Server {
    Server::with(&[("SANDBOX_TOKEN", SECRET), ("SANDBOX_LOG", "debug")])
}

fn execute(server: &Server, command: &str, headers: &[(&str, &str)]) -> Response {
    let headers = [&[("Content-Type", "application/json")], headers].concat();
    server.request("POST", "/execute", &headers, json!({ "command": command }).to_string().as_bytes())
}

const WITH_TOKEN: &[(&str, &str)] = &[("Authorization", "Bearer t0p-s3cret")];

#[test]
fn without_the_token_only_health_is_served() {
    // AU-03
    let server = server();
    for (method, target) in [("GET", "/"), ("HEAD", "/"), ("GET", "/?probe=1"), ("GET", "http://other/")] {
        assert_eq!(server.request(method, target, &[], b"").status, 200, "{method} {target}");
    }
    let targets = [
        "/execute",
        "/upload",
        "/list/",
        "/list",
        "/exists/",
        "/download/x",
        "/Execute",
        "//execute",
        "/execute/",
        "/%65xecute",
        "http://other/execute",
        "/nope",
        "//",
        "/./",
        "/%2e",
    ];
    for target in targets {
        for method in ["GET", "POST", "HEAD", "PUT", "OPTIONS"] {
            let response = server.request(method, target, &[], b"");
            assert_eq!(response.status, 401, "{method} {target}");
            assert_eq!(response.header("www-authenticate"), Some("Bearer"), "{method} {target}");
        }
    }
    assert_eq!(execute(&server, "touch ran", &[]).status, 401);
    assert_eq!(server.upload("up.txt", b"x").status, 401);
    assert_eq!(fs::read_dir(server.base()).unwrap().count(), 0);
}

#[test]
fn wrong_credentials_are_401() {
    // AU-01
    let server = server();
    for headers in [
        [("Authorization", "")],
        [("Authorization", "Bearer")],
        [("Authorization", "Bearer ")],
        [("Authorization", "Bearer t0p-s3cre")],
        [("Authorization", "Basic t0p-s3cret")],
        [("X-API-Key", "")],
        [("X-API-Key", "t0p-s3cret2")],
    ] {
        assert_eq!(execute(&server, "touch ran", &headers).status, 401, "{headers:?}");
    }
    assert!(!server.base().join("ran").exists());
}

#[test]
fn either_header_grants_access() {
    // AU-02
    let server = server();
    let behind_a_router = [("Authorization", "Bearer of-the-router"), ("X-API-Key", SECRET)];
    for headers in [WITH_TOKEN, &[("X-API-Key", SECRET)], &behind_a_router] {
        let response = execute(&server, "echo in", headers);
        response.check(200, &json!({ "stdout": "in\n", "stderr": "", "exit_code": 0 }));
    }
}

#[test]
fn token_is_checked_before_the_body_is_read() {
    let server = server();
    let mut client = server.connect();
    client
        .send(b"POST /upload HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1000000\r\n\r\n");
    assert_eq!(client.response().status, 401);
}

#[test]
fn token_is_hidden_from_commands_and_the_log() {
    // AU-05, EC-03
    let server = server();
    let script = format!(
        "env; for p in self {} {}; do tr '\\0' '\\n' </proc/$p/environ; tr '\\0' ' ' </proc/$p/cmdline; done",
        server.pid(),
        server.init_pid()
    );
    let response = execute(&server, &format!("sh -c \"{script}\""), WITH_TOKEN);
    let text = String::from_utf8(response.body).unwrap();
    assert!(text.contains("PATH=") && text.contains("serve"), "{text}");
    assert!(!text.contains(SECRET), "{text}");
    assert!(!text.contains("SANDBOX_PARENT_PID=\u{0}") && !server.log().contains(SECRET));
    // The tests may run as root, who can read any process: the environment that the kernel shows must not
    // contain the token.
    for pid in [server.pid(), server.init_pid()] {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&environment).contains(SECRET));
    }
}
