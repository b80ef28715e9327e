//! `stdout` and `stderr`: decoding, truncation and bounded memory.

use kit::Server;
use serde_json::json;
use std::time::Duration;

#[test]
fn every_single_byte_is_ascii_or_replaced() {
    // OU-06, OU-12
    let server = Server::start();
    for byte in 0..=255_u8 {
        let expected = if byte < 128 { char::from(byte) } else { '\u{fffd}' };
        server.execute(&format!(r"printf 'a\{byte:03o}z'")).check(&format!("a{expected}z"), "", 0);
    }
}

#[test]
fn large_streams_keep_their_lines_in_order() {
    // OU-04
    let server = Server::start();
    let ran =
        server.execute("sh -c 'i=0; while [ $i -lt 20000 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done'");
    let lines = |letter: char| (0..20_000).map(|number| format!("{letter}{number}\n")).collect::<String>();
    assert!(ran.stdout() == lines('o') && ran.stderr() == lines('e') && ran.exit_code() == 0);
    assert_eq!(ran.json.as_object().unwrap().len(), 3);
}

/// Splits a truncated text at its truncation line: the head, the number of omitted bytes, the tail.
fn split_truncated(text: &str) -> (&str, u64, &str) {
    let (first, rest) = text.split_once("\n[... ").unwrap();
    let (bytes, last) = rest.split_once(" bytes omitted ...]\n").unwrap();
    (first, bytes.parse().unwrap(), last)
}

#[test]
fn truncation_keeps_head_and_tail_and_counts_omitted_bytes() {
    let server = Server::with(&[("SANDBOX_MAX_OUTPUT_BYTES", "1000")]);
    let numbered =
        |from: usize, to: usize| (from..to).map(|number| format!("{number:06}\n")).collect::<String>();
    let whole = numbered(0, 10_000);
    let ran = server
        .execute("sh -c 'i=0; while [ $i -lt 10000 ]; do printf \"%06d\\n\" $i; i=$((i+1)); done; exit 9'");
    let (first, bytes, last) = split_truncated(ran.stdout());
    assert!(whole.starts_with(first) && whole.ends_with(last));
    assert_eq!((first.len(), last.len(), bytes), (500, 500, 69_000));
    assert_eq!((ran.exit_code(), &ran.json["truncated"], ran.json.get("timed_out")), (9, &json!(true), None));
    // Output of exactly the bound is complete. Each stream has its own bound.
    for command in ["head -c 1000 /dev/zero", "sh -c 'head -c 1000 /dev/zero; head -c 1000 /dev/zero >&2'"] {
        let ran = server.execute(command);
        assert!(ran.stdout() == "\0".repeat(1000) && ran.json.get("truncated").is_none(), "{ran:?}");
    }
    let ran = server.execute("sh -c 'echo out; head -c 1001 /dev/zero >&2'");
    assert_eq!((ran.stdout(), &ran.json["truncated"]), ("out\n", &json!(true)));
    assert_eq!(split_truncated(ran.stderr()).1, 1);
}

#[test]
fn truncation_never_splits_a_character() {
    // OU-08
    for bound in ["99999", "100000", "100001", "100002", "100003"] {
        let server = Server::with(&[("SANDBOX_MAX_OUTPUT_BYTES", bound)]);
        for character in ["é", "€", "😀"] {
            let ran = server.execute(&format!("sh -c 'yes {character} | tr -d \"\\n\" | head -c 1200000'"));
            let (first, bytes, last) = split_truncated(ran.stdout());
            let is_whole = |part: &str| !part.is_empty() && part.replace(character, "").is_empty();
            assert!(is_whole(first) && is_whole(last), "{bound} {character}");
            assert_eq!(first.len() + last.len() + usize::try_from(bytes).unwrap(), 1_200_000);
            assert!(first.len() + last.len() <= bound.parse().unwrap());
        }
    }
}

#[test]
fn memory_stays_bounded_for_any_output() {
    let server = Server::start();
    // OU-01
    let ran = server.execute("sh -c 'yes 0123456789 | head -c 400000000; exit 3'");
    let (first, bytes, last) = split_truncated(ran.stdout());
    assert_eq!(first.len() as u64 + bytes + last.len() as u64, 400_000_000);
    assert!(first.starts_with("0123456789\n") && ran.exit_code() == 3);
    // OU-15. Each byte becomes six characters of JSON.
    let ran = server.execute("head -c 30000000 /dev/zero");
    let (first, bytes, last) = split_truncated(ran.stdout());
    assert_eq!(first.len() as u64 + bytes + last.len() as u64, 30_000_000);
    let peak = server.peak_memory_kib();
    assert!(peak < 128 << 10, "{peak} kB");
    server.execute("echo well").check("well\n", "", 0);
    assert!(ran.took < Duration::from_secs(60));
}
