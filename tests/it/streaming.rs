//! Streamed standard output: the response is the same for any buffer size, uses constant memory, and a slow
//! reader throttles the command.
//!
//! All other tests hold for streamed responses too: `SANDBOX_OUTPUT_BUFFER_BYTES=0 cargo test` streams every
//! response with any standard output.

use kit::{Server, eventually, own_sleep, processes_with};
use serde_json::{Value, json};
use std::fs;
use std::io::Read;
use std::net::Shutdown;
use std::thread;
use std::time::{Duration, Instant};

const NO_LIMIT: (&str, &str) = ("SANDBOX_MAX_OUTPUT_BYTES", "0");

/// The server's peak memory, independent of the amount of output.
const MAX_MEMORY_KIB: u64 = 6 << 10;

#[test]
fn response_streams_while_the_command_runs_and_keeps_alive() {
    let server = Server::start();
    let command = "sh -c 'yes | head -c 200000; touch begun; until [ -e go ]; do sleep 0.02; done; \
                   echo end; echo e >&2; exit 3'";
    for _ in 0..2 {
        let mut client = server.connect();
        client.send_command(command);
        // Most of the output arrives before the command may continue.
        let mut early = vec![0; 150_000];
        client.stream.read_exact(&mut early).unwrap();
        let head = String::from_utf8_lossy(&early).into_owned();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"), "{}", &head[..300]);
        assert!(head.contains("\r\n{\"stdout\":\"y\\ny\\n"), "{}", &head[..300]);
        assert!(eventually(|| server.base().join("begun").exists()));
        fs::write(server.base().join("go"), b"").unwrap();
        client.unread(early);
        let expected = json!({ "stdout": "y\n".repeat(100_000) + "end\n", "stderr": "e\n", "exit_code": 3 });
        assert!(client.response().json() == expected);
        client.send_command("echo next");
        client.response().check(200, &json!({ "stdout": "next\n", "stderr": "", "exit_code": 0 }));
        fs::remove_file(server.base().join("go")).unwrap();
        fs::remove_file(server.base().join("begun")).unwrap();
    }
}

/// Characters of every UTF-8 length mixed with invalid bytes, in a fixed pseudo-random order (xorshift).
fn mixed_bytes(length: usize) -> Vec<u8> {
    const PIECES: [&[u8]; 12] = [
        b"a",
        "é".as_bytes(),
        "€".as_bytes(),
        "😀".as_bytes(),
        b"\xff",
        b"\xf0\x9f",
        b"\xe2\x82",
        b"\0",
        b"\n",
        b"\"\\",
        b"\xed\xa0\xbd",
        b"plain text ",
    ];
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut bytes = Vec::new();
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(PIECES[usize::try_from(state % PIECES.len() as u64).unwrap()]);
    }
    bytes.truncate(length);
    bytes
}

#[test]
fn output_is_the_same_for_any_buffer_size() {
    // OU-06, OU-07, OU-08
    thread::scope(|scope| {
        for buffer in ["0", "1", "63", "4096", "65536", "100000000"] {
            scope.spawn(move || {
                let server = Server::with(&[("SANDBOX_OUTPUT_BUFFER_BYTES", buffer), NO_LIMIT]);
                for length in [0, 1, 2, 7, 8, 9, 10, 11, 12, 100, 2047, 2048, 2049, 65_536, 65_545, 200_001] {
                    let bytes = mixed_bytes(length);
                    fs::write(server.base().join("mixture"), &bytes).unwrap();
                    let ran = server.execute("cat mixture");
                    assert!(ran.stdout() == String::from_utf8_lossy(&bytes), "{buffer} {length}");
                    assert_eq!((ran.stderr(), ran.exit_code()), ("", 0));
                    let ran = server.execute("dd if=mixture bs=1021 status=none");
                    assert!(ran.stdout() == String::from_utf8_lossy(&bytes), "{buffer} {length}");
                }
            });
        }
    });
}

#[test]
fn truncation_is_the_same_for_any_buffer_size() {
    // OU-01, OU-08
    let responses = |buffer: &str, limit: &str| -> Vec<Value> {
        let server =
            Server::with(&[("SANDBOX_OUTPUT_BUFFER_BYTES", buffer), ("SANDBOX_MAX_OUTPUT_BYTES", limit)]);
        let lengths = [0, 9, 10, 11, 999, 1000, 1001, 1003, 5000, 300_000];
        let response = |length: usize| {
            fs::write(server.base().join("mixture"), mixed_bytes(length)).unwrap();
            server.execute("sh -c 'cat mixture; cat mixture >&2; exit 7'").json
        };
        lengths.map(response).into()
    };
    for limit in ["1", "10", "1001", "200000"] {
        let buffered = responses("100000000", limit);
        for buffer in ["0", "65536"] {
            assert!(responses(buffer, limit) == buffered, "{limit} {buffer}");
        }
        assert!(buffered.iter().any(|response| response["truncated"] == true), "{limit}");
        assert!(buffered.iter().any(|response| response.get("truncated").is_none()), "{limit}");
    }
}

/// Reads a chunked response to its end; returns its last 100 bytes and its total length.
fn drain_response(stream: &mut impl Read) -> (String, u64) {
    let (mut last, mut count) = (Vec::new(), 0);
    let mut piece = vec![0; 1 << 20];
    while !last.ends_with(b"0\r\n\r\n") {
        let length = stream.read(&mut piece).unwrap();
        assert!(length > 0, "the response was truncated after {count} bytes");
        count += length as u64;
        last.extend_from_slice(&piece[..length]);
        last.drain(..last.len().saturating_sub(100));
    }
    (String::from_utf8_lossy(&last).into_owned(), count)
}

#[test]
fn unlimited_output_streams_in_constant_memory() {
    let server = Server::with(&[NO_LIMIT]);
    for (command, least_bytes) in [
        ("sh -c 'yes 0123456789 | head -c 60000000'", 65_000_000),
        // OU-15. Each byte becomes six characters of JSON.
        ("head -c 8000000 /dev/zero", 48_000_000),
    ] {
        let mut client = server.connect();
        client.send_command(command);
        let (end, count) = drain_response(&mut client.stream);
        assert!(end.contains("\",\"stderr\":\"\",\"exit_code\":0}\r\n"), "{end}");
        assert!(count > least_bytes, "{count}");
        let peak = server.peak_memory_kib();
        assert!(peak < MAX_MEMORY_KIB, "{peak} KiB");
    }
    server.execute("echo well").check("well\n", "", 0);
}

#[test]
fn stderr_stays_bounded_without_an_output_limit() {
    let server = Server::with(&[NO_LIMIT]);
    let ran = server.execute("sh -c 'echo out; head -c 20000000 /dev/zero >&2; exit 4'");
    assert_eq!((ran.stdout(), ran.exit_code(), &ran.json["truncated"]), ("out\n", 4, &json!(true)));
    assert!(ran.stderr().contains("\n[... 11611392 bytes omitted ...]\n"));
}

#[test]
fn slow_reader_throttles_the_command_not_the_deadline() {
    let server = Server::with(&[NO_LIMIT, ("SANDBOX_EXEC_TIMEOUT_SECONDS", "2")]);
    let sleep = own_sleep(30);
    let mut client = server.connect();
    client.send_command(&format!("sh -c '{sleep} & yes | head -c 500000000; touch after; {sleep}'"));
    assert!(client.wait_for_input() && eventually(|| !processes_with(&sleep).is_empty()));
    let started = Instant::now();
    // This client does not read. Others are served meanwhile.
    server.execute("echo well").check("well\n", "", 0);
    assert!(eventually(|| processes_with(&sleep).is_empty()));
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    assert!(!server.base().join("after").exists());
    let response = client.response().json();
    assert_eq!((&response["timed_out"], &response["exit_code"]), (&json!(true), &json!(1)));
    let stdout = response["stdout"].as_str().unwrap();
    assert!(stdout.len() > 100_000 && stdout.len() < 100_000_000, "{}", stdout.len());
    assert!("y\n".repeat(stdout.len()).starts_with(stdout));
    assert!(response["stderr"].as_str().unwrap().ends_with("timed out after 2.0 seconds"));
    let peak = server.peak_memory_kib();
    assert!(peak < MAX_MEMORY_KIB, "{peak} KiB");
}

#[test]
fn slow_reader_gets_the_complete_output() {
    let server = Server::with(&[NO_LIMIT]);
    let mut client = server.connect();
    client.send_command("sh -c 'seq 1 1000000; touch after'");
    // Output beyond the capacity of the pipe and the socket keeps the command from exiting.
    let mut early = vec![0; 1 << 20];
    client.stream.read_exact(&mut early).unwrap();
    thread::sleep(Duration::from_millis(700));
    client.unread(early);
    let expected: String = (1..=1_000_000).map(|number| format!("{number}\n")).collect();
    assert!(client.response().json() == json!({ "stdout": expected, "stderr": "", "exit_code": 0 }));
    assert!(server.base().join("after").exists());
}

#[test]
fn disconnect_while_streaming_kills_the_command() {
    // CN-01
    let server = Server::with(&[NO_LIMIT]);
    let sleep = own_sleep(30);
    for (output, reads_all) in [("yes", false), ("yes | head -c 200000", true)] {
        let mut client = server.connect();
        client.send_command(&format!("sh -c '{sleep} & {output}; touch begun; {sleep}; touch after'"));
        let mut early = vec![0; 150_000];
        client.stream.read_exact(&mut early).unwrap();
        if reads_all {
            // With no unread data, the connection closes with a FIN instead of a reset.
            assert!(eventually(|| server.base().join("begun").exists()));
            client.stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
            while client.stream.read(&mut early).is_ok_and(|count| count > 0) {}
        }
        assert!(!processes_with(&sleep).is_empty());
        drop(client);
        assert!(eventually(|| processes_with(&sleep).is_empty()));
    }
    assert!(!server.base().join("after").exists());
}

#[test]
fn half_closed_client_gets_the_whole_stream() {
    // CN-01
    let server = Server::start();
    for version in ["1.1", "1.0"] {
        let mut client = server.connect();
        let body = json!({ "command": "sh -c 'seq 1 50000; sleep 1.2; echo é€😀; sleep 0.4; echo end'" })
            .to_string();
        let head = format!("POST /execute HTTP/{version}\r\nHost: x\r\nContent-Type: application/json\r\n");
        client.send(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
        client.stream.shutdown(Shutdown::Write).unwrap();
        let numbers: String = (1..=50_000).map(|number| format!("{number}\n")).collect();
        let response = client.response();
        assert_eq!(response.header("content-length"), None);
        let expected = json!({ "stdout": numbers + "é€😀\nend\n", "stderr": "", "exit_code": 0 });
        assert!(response.json() == expected, "{version}");
    }
}
