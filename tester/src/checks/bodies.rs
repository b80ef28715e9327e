//! The request body of `/execute`. No check needs a program: the error for an unknown one proves that the
//! command was read.

use super::{Check, check};
use crate::json::Value;
use crate::request::Request;
use crate::response::{Exchange, Verdict};
use crate::session::{KnownDifference, Session};

pub(super) const CHECKS: &[Check] = &[
    check("a body that is not JSON is 422", not_json),
    check("JSON of the wrong shape is 422", wrong_json),
    check("a missing or non-JSON content type is 422", wrong_content_type),
    check("JSON content types are accepted in any case, with parameters", json_content_types),
    check("unknown fields are ignored", unknown_fields),
    check("a BOM, white space, escaped keys and a null timeout are accepted", valid_spellings),
    check("a duplicate key is 422", duplicate_keys),
    check("a timeout_seconds that is not a number is 422", invalid_timeout),
    check("every escape in a JSON string is decoded", escapes),
];

// JS-07
fn not_json(s: &Session) -> Verdict {
    for body in [
        "",
        "{\"command\":\"echo a\"",
        "{\"command\":\"echo a\"} x",
        "{\"command\":\"echo a\",}",
        "{'command':'echo a'}",
        "{\"command\":\"a\nb\"}",
        "command=echo",
    ] {
        unprocessable(&s.send(Request::json(body))?)?;
    }
    Ok(())
}

fn wrong_json(s: &Session) -> Verdict {
    for body in [
        "{}",
        "[]",
        "null",
        "\"echo a\"",
        "{\"command\":1}",
        "{\"command\":null}",
        "{\"command\":[\"echo\"]}",
    ] {
        unprocessable(&s.send(Request::json(body))?)?;
    }
    Ok(())
}

const UNKNOWN: &str = r#"{"command":"tester-no-such-program"}"#;
const NOT_FOUND: &str = "[Errno 2] No such file or directory: 'tester-no-such-program'";

fn with_content_type(content_type: &str) -> Request {
    Request::new("POST", "/execute").header("Content-Type", content_type).body(UNKNOWN.as_bytes())
}

// JS-11
fn wrong_content_type(s: &Session) -> Verdict {
    unprocessable(&s.send(Request::new("POST", "/execute").body(UNKNOWN.as_bytes()))?)?;
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", "text/json"]
    {
        unprocessable(&s.send(with_content_type(content_type))?)?;
    }
    Ok(())
}

// JS-11
fn json_content_types(s: &Session) -> Verdict {
    for content_type in ["application/json; charset=utf-8", "application/vnd.x+json", "APPLICATION/JSON"] {
        s.send(with_content_type(content_type))?.ran()?.expect_failure(NOT_FOUND)?;
    }
    Ok(())
}

fn unknown_fields(s: &Session) -> Verdict {
    for body in [
        r#"{"x":[{"y":null}],"command":"tester-no-such-program","z":1e5}"#,
        r#"{"x":{"a":1,"a":2},"command":"tester-no-such-program","y":[1e400,-0,{}]}"#,
        r#"{"command":"tester-no-such-program","encoding":"utf-8","cwd":"/","env":{"PATH":""},"":0}"#,
    ] {
        s.execute_json(body)?.expect_failure(NOT_FOUND)?;
    }
    Ok(())
}

// JS-04
fn valid_spellings(s: &Session) -> Verdict {
    for body in [
        "\u{feff}{\"command\":\"tester-no-such-program\"}",
        " \r\n\t{ \"command\" :\n\"tester-no-such-program\" } \r\n",
        r#"{"\u0063ommand":"tester-no-such-program"}"#,
        r#"{"command":"tester-no-such-program","timeout_seconds":null}"#,
    ] {
        s.execute_json(body)?.expect_failure(NOT_FOUND)?;
    }
    Ok(())
}

// JS-01
fn duplicate_keys(s: &Session) -> Verdict {
    let exchange =
        s.send(Request::json(r#"{"command":"tester-no-such-program","command":"tester-no-such-program"}"#))?;
    let observed = exchange.response.status == 200;
    s.allow(unprocessable(&exchange), KnownDifference { name: "difference 13", observed })
}

fn invalid_timeout(s: &Session) -> Verdict {
    for value in ["\"soon\"", "[1]", "{}"] {
        let body = format!("{{\"command\":\"tester-no-such-program\",\"timeout_seconds\":{value}}}");
        let exchange = s.send(Request::json(&body))?;
        let observed = exchange.response.status == 200;
        s.allow(unprocessable(&exchange), KnownDifference { name: "no timeout_seconds", observed })?;
    }
    Ok(())
}

// JS-14, JS-03
fn escapes(s: &Session) -> Verdict {
    for (name, decoded) in [
        (r"./tester\u0041\/\u00e9\ud83d\ude00", "'./testerA/é😀'"),
        (r"'tester\b\f\n\r\t'", r"'tester\x08\x0c\n\r\t'"),
        (r"'\u0022\\'", r#"'"\\'"#),
        (r#"\"tester\u0041\\t\/\""#, r"'testerA\\t/'"),
        (r"'tester\u0020no\u000asuch'", r"'tester no\nsuch'"),
    ] {
        let ran = s.execute_json(&format!("{{\"command\":\"{name}\"}}"))?;
        ran.expect_failure(&format!("[Errno 2] No such file or directory: {decoded}"))?;
    }
    Ok(())
}

/// 422 with at least one `{"type","loc","msg"}` in `detail`.
pub(super) fn unprocessable(exchange: &Exchange) -> Verdict {
    exchange.expect_status(422)?;
    let value = exchange.json()?;
    let details = value.get("detail").and_then(Value::array).unwrap_or_default();
    let met = !details.is_empty() && details.iter().all(is_detail);
    exchange.expect(met, r#"{"detail":[{"type":...,"loc":[...],"msg":...}]}"#)
}

fn is_detail(detail: &Value) -> bool {
    let is_text = |key| detail.get(key).and_then(Value::text).is_some();
    is_text("type") && is_text("msg") && detail.get("loc").and_then(Value::array).is_some()
}
