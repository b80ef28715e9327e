//! The JSON body of `POST /execute`: what is accepted, and what is rejected before anything runs.

use kit::{Response, Server};
use serde_json::json;
use std::io::Write;

const JSON: &[(&str, &str)] = &[("Content-Type", "application/json")];

const HEAD: &str = "POST /execute HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";

/// Rejected in FastAPI's format, and nothing has run.
#[track_caller]
fn check_unprocessable(server: &Server, response: &Response) {
    assert_eq!(response.status, 422, "{response:?}");
    let first = &response.json()["detail"][0];
    assert!(first["type"].is_string() && first["loc"].is_array() && first["msg"].is_string(), "{response:?}");
    assert!(!server.base().join("marker").exists(), "{response:?}");
}

#[test]
fn invalid_json_or_schema_is_422() {
    let server = Server::start();
    for body in [
        // JS-01
        r#"{"command":"touch marker","command":"touch marker"}"#,
        r#"{"command":"touch marker","x":1,"x":1}"#,
        r#"{"command":"touch marker","timeout_seconds":1,"timeout_seconds":2}"#,
        r#"{"command":"touch marker","\u0063ommand":"touch marker"}"#,
        // JS-03
        r#"{"command":"touch marker \ud83d"}"#,
        r#"{"command":"touch marker \ude00\ud83d"}"#,
        r#"{"command":"touch marker \ud83d\u0041"}"#,
        r#"{"command":"touch marker \ud83dx"}"#,
        r#"{"command":"touch marker","\ud83d":1}"#,
        // JS-07
        r#"{"command":"touch marker""#,
        r#"{"command":"touch marker"} x"#,
        r#"{"command":"touch marker"}{"command":"touch marker"}"#,
        r#"{"command":"touch marker",}"#,
        r#"{,"command":"touch marker"}"#,
        r#"{'command':'touch marker'}"#,
        r#"{command:"touch marker"}"#,
        "{\"command\":\"touch\nmarker\"}",
        "{\"command\":\"touch\0marker\"}",
        "{\"command\":\"touch\tmarker\"}",
        "{\"command\":\"touch marker\"}\0",
        r#"{"command":"touch marker" /* */}"#,
        "{\"command\":\"touch marker\"} // x",
        r#"{"command":"touch marker\x"}"#,
        r#"{"command":"touch marker\u12"}"#,
        r#"{"command" "touch marker"}"#,
        "",
        " ",
        "touch marker",
        "command=touch+marker",
        // JS-10
        r#"{"command":NaN}"#,
        r#"{"command":"touch marker","x":NaN}"#,
        r#"{"command":"touch marker","x":Infinity}"#,
        r#"{"command":"touch marker","timeout_seconds":NaN}"#,
        // Valid JSON of the wrong shape.
        "null",
        "1",
        r#""touch marker""#,
        r#"["touch marker"]"#,
        r#"[{"command":"touch marker"}]"#,
        "{}",
        r#"{"cmd":"touch marker"}"#,
        r#"{"Command":"touch marker"}"#,
        r#"{"command":null}"#,
        r#"{"command":1}"#,
        r#"{"command":true}"#,
        r#"{"command":["touch","marker"]}"#,
        r#"{"command":{"command":"touch marker"}}"#,
    ] {
        check_unprocessable(&server, &server.execute_text(body));
    }
    for body in [
        &b"{\"command\":\"touch marker \xff\"}"[..],
        b"{\"command\":\"touch marker \xed\xa0\xbd\"}",
        b"\xff\xfe{\x00}\x00",
    ] {
        check_unprocessable(&server, &server.request("POST", "/execute", JSON, body));
    }
}

#[test]
fn rejection_names_the_location_and_reason() {
    let server = Server::start();
    for (body, kind, location, message) in [
        ("{}", "missing", json!(["body", "command"]), "Field required"),
        (r#"{"command":1}"#, "string_type", json!(["body", "command"]), "Input should be a valid string"),
        (
            r#"{"command":"x","timeout_seconds":0}"#,
            "greater_than",
            json!(["body", "timeout_seconds"]),
            "Input should be greater than 0",
        ),
        (r#"{"command":"x" ,}"#, "json_invalid", json!(["body", 16]), "JSON decode error"),
    ] {
        let response = server.execute_text(body).json();
        let detail = &response["detail"][0];
        assert_eq!(
            (&detail["type"], &detail["loc"], &detail["msg"]),
            (&json!(kind), &location, &json!(message)),
            "{body}"
        );
    }
}

#[test]
fn ignored_fields_may_nest_to_any_depth() {
    // JS-02
    let server = Server::start();
    for depth in [200, 100_000] {
        for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
            let deep = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            let response = server.execute_text(&format!(r#"{{"command":"echo deep","x":{deep}}}"#));
            response.check(200, &json!({ "stdout": "deep\n", "stderr": "", "exit_code": 0 }));
            for body in [
                format!(r#"{{"command":{deep}}}"#),
                format!(r#"{{"command":"touch marker","timeout_seconds":{deep}}}"#),
                format!(r#"{{"command":"touch marker","x":{}"#, open.repeat(depth)),
                deep,
                open.repeat(depth),
            ] {
                check_unprocessable(&server, &server.execute_text(&body));
            }
        }
    }
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn only_json_content_types_are_accepted() {
    // JS-11
    let server = Server::start();
    let execute = |headers: &[(&str, &str)]| {
        server.request("POST", "/execute", headers, br#"{"command":"touch marker"}"#)
    };
    check_unprocessable(&server, &execute(&[]));
    for content_type in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "",
        "json",
        "application",
        "application/",
        "application/jsonp",
        "application/xml+json-not",
        "text/json",
        "application/javascript; x=application/json",
        "*/*",
    ] {
        check_unprocessable(&server, &execute(&[("Content-Type", content_type)]));
    }
    for content_type in [
        "application/json",
        "application/json; charset=utf-8",
        "application/json;charset=utf-8",
        "application/json ; charset=latin-1",
        "application/vnd.x+json",
        "APPLICATION/JSON",
        "application/problem+JSON; q=1",
        "Application/Json;",
    ] {
        let response = execute(&[("Content-Type", content_type)]);
        response.check(200, &json!({ "stdout": "", "stderr": "", "exit_code": 0 }));
    }
}

#[test]
fn body_larger_than_8_mib_is_413() {
    // JS-13
    let server = Server::start();
    let body_of = |bytes: usize| {
        let frame = r#"{"command":"true","x":""}"#.len();
        format!(r#"{{"command":"true","x":"{}"}}"#, "x".repeat(bytes - frame))
    };
    for bytes in [2_000_000, 8 << 20] {
        server
            .execute_text(&body_of(bytes))
            .check(200, &json!({ "stdout": "", "stderr": "", "exit_code": 0 }));
    }
    // Rejected by its announced length, before any of it has arrived.
    for length in ["8388609", "100000000", "18446744073709551615"] {
        let mut client = server.connect();
        client.send(format!("{HEAD}Content-Length: {length}\r\n\r\n").as_bytes());
        assert_eq!(client.response().status, 413, "{length}");
    }
    // Rejected by its actual size if it announces none.
    let mut client = server.connect();
    client.send(format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n").as_bytes());
    let body = body_of((8 << 20) + 1);
    for piece in body.as_bytes().chunks(1 << 20) {
        let chunk = [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
        if client.stream.write_all(&chunk).is_err() {
            break;
        }
    }
    assert_eq!(client.response().status, 413);
    let peak = server.peak_memory_kib();
    assert!(peak < 64 << 10, "{peak} kB");
}
