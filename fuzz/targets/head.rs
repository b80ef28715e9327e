//! Heads. A head is parsed alike however it is split. A refused one stays refused with any bytes after it.
//! Tighter limits refuse more heads and parse none differently. A second, naive parser finds the same framing
//! in every accepted head, and the same headers.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbox_runtime::http::Limits;
use sandbox_runtime::http::head::{Framing, Head, Version, parse};

fuzz_target!(|input: &[u8]| {
    let tight = Limits { head_bytes: 300, headers: 6, target_bytes: 60, ..Limits::default() };
    let wide = Limits::default();
    let whole = parse(input, &tight);
    let grown =
        (1..=input.len()).map(|end| parse(&input[..end], &tight)).find(|outcome| *outcome != Ok(None));
    assert_eq!(grown.unwrap_or(Ok(None)), whole, "byte by byte");

    let outcome = parse(input, &wide);
    if whole.as_ref().is_ok_and(Option::is_some) {
        assert_eq!(whole, outcome, "tight limits");
    }
    if outcome != Ok(None) {
        for more in [&b"\r\n\r\n"[..], b"\n", b"\0", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"] {
            assert_eq!(parse(&[input, more].concat(), &wide), outcome, "with more bytes after it");
        }
    }
    if let Ok(Some((head, used))) = outcome {
        let bytes = input.get(..used).expect("it consumes at most the input");
        assert_eq!(parse(&bytes[..used - 1], &wide), Ok(None), "without its last byte");
        check(&head, bytes);
    }
});

/// Parses the head again, as plainly as possible.
fn check(head: &Head, bytes: &[u8]) {
    let text = bytes.strip_prefix(b"\r\n").unwrap_or(bytes);
    let text = text
        .strip_prefix(b"\r\n")
        .unwrap_or(text)
        .strip_suffix(b"\r\n\r\n")
        .expect("it ends in a blank line");
    let text: String = text.iter().copied().map(char::from).collect();
    let mut lines = text.split("\r\n");
    let request_line: Vec<&str> = lines.next().unwrap().split(' ').collect();
    let [method, target, version] = request_line[..] else { panic!("{request_line:?}") };
    assert!(!method.is_empty() && !target.is_empty());
    assert_eq!(version, if head.version == Version::Http10 { "HTTP/1.0" } else { "HTTP/1.1" });
    assert!(head.target.path.starts_with(b"/"));

    let headers: Vec<(String, &str)> = lines
        .map(|line| {
            assert!(!line.contains(['\r', '\n', '\0']), "{line:?}");
            let (name, value) = line.split_once(':').expect("a header has a colon");
            assert!(!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic()), "{name:?}");
            (name.to_ascii_lowercase(), value.trim_matches([' ', '\t']))
        })
        .collect();
    let all = |wanted: &str| {
        headers.iter().filter(|(name, _)| name == wanted).map(|(_, value)| *value).collect::<Vec<_>>()
    };
    assert!(all("host").len() == 1 || (all("host").is_empty() && head.version == Version::Http10));
    match (all("content-length").as_slice(), all("transfer-encoding").as_slice()) {
        ([], []) => assert_eq!(head.framing, Framing::None),
        ([length], []) => {
            assert!(length.bytes().all(|byte| byte.is_ascii_digit()), "{length:?}");
            assert_eq!(head.framing, Framing::Length(length.parse().unwrap()));
        }
        ([], [coding]) => {
            assert!(coding.eq_ignore_ascii_case("chunked") && head.version == Version::Http11, "{coding:?}");
            assert_eq!(head.framing, Framing::Chunked);
        }
        both => panic!("two framings: {both:?}"),
    }
    assert!(all("content-type").len() <= 1 && all("authorization").len() <= 1 && all("range").len() <= 1);
    for (name, _) in headers.iter().filter(|(name, _)| name != "connection") {
        let kept: Vec<String> =
            head.headers.all(name).map(|value| value.iter().copied().map(char::from).collect()).collect();
        assert_eq!(kept, all(name), "{name}");
    }
    let joined = all("connection").join(", ");
    let kept = head.headers.get("connection").unwrap_or_default();
    assert_eq!(kept.iter().copied().map(char::from).collect::<String>(), joined);
}
