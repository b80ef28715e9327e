//! Responses. Any name and any time become printable ASCII on one line. The encoded form of a name decodes to
//! the name.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbox_runtime::http::date::http_date;
use sandbox_runtime::http::head::{Persistence, Version};
use sandbox_runtime::http::response::{Payload, Response, content_disposition};
use sandbox_runtime::http::status::Status;
use sandbox_runtime::http::target::Target;

fuzz_target!(|input: (&[u8], i64)| {
    let (name, seconds) = input;
    let text = String::from_utf8_lossy(name).into_owned();
    let disposition = content_disposition(name);
    check_plain(&disposition);
    let rest = disposition.strip_prefix("attachment; filename=\"").unwrap();
    let (fallback, extended) = rest.split_once('"').unwrap();
    match extended.strip_prefix("; filename*=utf-8''") {
        Some(encoded) => {
            assert!(
                !encoded.contains([' ', '"', ';', '\'', '(', ')', '<', '>', '@', ',', '/', '?', '=', '*'])
            );
            // A `#` begins the fragment of a target, but is not special here.
            let path = format!("/{}", encoded.replace('#', "%23"));
            assert_eq!(Target::parse(path.as_bytes()).unwrap().path[1..], *text.as_bytes());
        }
        None => assert!(extended.is_empty() && fallback == text),
    }
    assert!(!fallback.contains(['\\', '%']));

    let response = Response::new(Status::OK, Payload::Empty).with("A", disposition).with("B", text.clone());
    let head = response.encode_head(Version::Http11, Persistence::Close);
    let head = String::from_utf8(head).unwrap();
    let lines: Vec<&str> = head.split("\r\n").collect();
    assert_eq!(lines.len(), 8, "{head:?}");
    lines.iter().for_each(|line| check_plain(line));
    assert_eq!(response.head.header("B").unwrap().chars().count(), text.chars().count());

    let date = http_date(seconds);
    check_plain(&date);
    assert_eq!(date.len(), "Thu, 01 Jan 1970 00:00:00 GMT".len(), "{date}");
});

#[track_caller]
fn check_plain(text: &str) {
    assert!(text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()), "{text:?}");
}
