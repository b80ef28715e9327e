//! The JSON of `/execute`. A general parser also accepts every accepted body, reads the same command and
//! timeout, and finds no duplicate key. A refused body is not a valid request. Output of any bytes becomes
//! JSON that decodes to it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbox_runtime::api::compat::wire::{ExecuteRequest, ExecuteResponse, Location, begin_execute};
use sandbox_runtime::json::escape::push_escaped;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use std::collections::HashSet;
use std::fmt;

fuzz_target!(|input: &[u8]| {
    let body = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input);
    let ours = ExecuteRequest::from_json(input);
    match (&ours, serde_json::from_slice::<Value>(body)) {
        (Ok(request), Ok(value)) => {
            assert_eq!(value["command"].as_str(), Some(request.command.as_str()));
            assert_eq!(value.get("timeout_seconds").and_then(Value::as_f64), request.timeout_seconds);
            assert!(request.timeout_seconds.is_none_or(|seconds| seconds > 0.0 && seconds.is_finite()));
            assert!(!has_duplicate_key(body));
        }
        (Ok(_), Err(error)) => check_only_unrepresentable(body, &error.to_string()),
        (Err(_), Ok(value)) => {
            let is_number = |value: &Value| value.as_f64().is_some_and(|seconds| seconds > 0.0);
            let has_time = value.get("timeout_seconds").is_none_or(|time| time.is_null() || is_number(time));
            let is_valid = value.get("command").is_some_and(Value::is_string) && has_time;
            assert!(!is_valid || has_duplicate_key(body));
        }
        (Err(_), Err(_)) => {}
    }
    if let Err(invalid) = &ours {
        let Location::Offset(offset) = invalid.location else { return check_response(input) };
        assert!(offset <= body.len(), "{invalid:?}");
        let response: Value = serde_json::from_slice(&invalid.to_json()).unwrap();
        assert_eq!(response["detail"][0]["type"].as_str(), Some(invalid.kind));
    }
    check_response(input);
});

/// Output of any bytes becomes the same JSON, whether a part of it was streamed or not.
fn check_response(output: &[u8]) {
    let (first, second) = output.split_at(output.len() / 2);
    let response = |stdout: &[&[u8]], streamed: &[u8]| {
        let mut json = Vec::new();
        begin_execute(&mut json).unwrap();
        push_escaped(streamed, &mut json);
        let stderr = &[first, second];
        let response = ExecuteResponse { stdout, stderr, exit_code: -9, timed_out: false, truncated: true };
        response.write_rest(&mut json).unwrap();
        json
    };
    let whole = response(&[output], b"");
    let valid = std::str::from_utf8(output).map_or_else(|error| error.valid_up_to(), str::len);
    let (streamed, rest) = output.split_at(valid);
    assert_eq!(response(&[rest], streamed), whole);
    let json: Value = serde_json::from_slice(&whole).unwrap();
    assert_eq!(json["stdout"].as_str(), Some(&*String::from_utf8_lossy(output)));
    let both = format!("{}{}", String::from_utf8_lossy(first), String::from_utf8_lossy(second));
    assert_eq!(json["stderr"].as_str(), Some(both.as_str()));
}

/// The value of an unknown field is skipped, so it may be valid JSON that `Value` cannot represent: a number
/// of any size, half a surrogate pair, any depth.
fn check_only_unrepresentable(body: &[u8], error: &str) {
    let expected = [
        "number out of range",
        "lone leading surrogate",
        "unexpected end of hex escape",
        "recursion limit exceeded",
    ];
    assert!(expected.iter().any(|start| error.starts_with(start)), "accepted, but: {error}");
    assert!(std::str::from_utf8(body).is_ok());
}

/// Whether the outermost object has a duplicate key.
fn has_duplicate_key(body: &[u8]) -> bool {
    struct Keys;
    impl<'de> Visitor<'de> for Keys {
        type Value = bool;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
            let (mut seen, mut has_duplicate) = (HashSet::new(), false);
            while let Some((key, _)) = map.next_entry::<String, IgnoredAny>()? {
                has_duplicate |= !seen.insert(key);
            }
            Ok(has_duplicate)
        }
    }
    serde_json::Deserializer::from_slice(body).deserialize_map(Keys).unwrap_or(false)
}
