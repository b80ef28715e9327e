//! Mutated requests: valid ones, alone and pipelined, with random changes of bytes, lines, numbers and order,
//! sent in random pieces. The server sends complete and well-formed responses, none of them a 5xx, and uses
//! no more resources afterwards than before.
//!
//! `MUTATED_REQUESTS=100000` sets their number; `MUTATION_SEED=…` repeats an earlier run. Mutated commands
//! find no programs except `echo` and `true`.

use crate::python::Numbers;
use kit::{Reader, Response, Server, TempDir, binary, eventually};
use std::collections::BTreeMap;
use std::io::Read;
use std::net::Shutdown;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

const DEFAULT_COUNT: usize = 3000;
const CLIENTS: usize = 4;

#[test]
fn mutated_requests_get_well_formed_responses() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let count = number("MUTATED_REQUESTS").map_or(DEFAULT_COUNT, |count| usize::try_from(count).unwrap());
    let seed = number("MUTATION_SEED").unwrap_or_else(|| Numbers::new().0);
    let programs = programs();
    let mut command = binary();
    let base = TempDir::new();
    command.env("SANDBOX_BASE_DIR", base.path()).env("PATH", programs.path());
    command.env("SANDBOX_MAX_UPLOAD_BYTES", "1000000").env("SANDBOX_EXEC_TIMEOUT_SECONDS", "5");
    command.env("SANDBOX_SHUTDOWN_GRACE_SECONDS", "0").env("SANDBOX_LOG", "debug");
    let server = Server::from_command(command, base);
    assert_eq!(server.upload("d/f", b"0123456789").status, 200);
    let (pid, descriptors, threads) = (server.pid(), server.descriptors(), server.threads());

    let (next, seen, started) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()), Instant::now());
    let valid = valid();
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        break;
                    }
                    for status in send_one(&server, &valid, seed, index) {
                        *seen.lock().unwrap().entry(status).or_insert(0) += 1;
                    }
                    if index % 100 == 0 {
                        assert_eq!(server.get("/").status, 200, "after {index} of seed {seed}");
                    }
                }
            });
        }
    });
    let seen = seen.into_inner().unwrap();
    println!("seed {seed}: {count} requests in {:?}, statuses {seen:?}", started.elapsed());
    println!("{} KiB, {descriptors} descriptors, {threads} threads", server.peak_memory_kib());

    assert_eq!((server.get("/").status, server.pid()), (200, pid), "seed {seed}");
    assert!(eventually(|| server.descriptors() <= descriptors), "{} of {descriptors}", server.descriptors());
    assert!(eventually(|| server.threads() <= threads), "{} of {threads} threads", server.threads());
    assert!(server.peak_memory_kib() < 16 << 10, "seed {seed}: {} KiB", server.peak_memory_kib());
    check_files(server.base());
    for line in server.log().lines() {
        assert!(
            ["info", "debug"].iter().any(|level| line.starts_with(&format!("sandbox-runtime: {level}: "))),
            "seed {seed}: {line:?}"
        );
        assert!(!line.contains(char::is_control), "seed {seed}: {line:?}");
    }
    // The mutants must be of many kinds.
    for status in [200, 206, 400, 403, 404, 405, 416, 422] {
        assert!(seen.contains_key(&status), "seed {seed}: no {status} among {seen:?}");
    }
}

/// A directory with the only programs that commands find on PATH.
fn programs() -> TempDir {
    let (directory, path) = (TempDir::new(), std::env::var_os("PATH").unwrap());
    for name in ["echo", "true"] {
        let program = std::env::split_paths(&path).map(|entry| entry.join(name)).find(|file| file.is_file());
        std::os::unix::fs::symlink(program.unwrap(), directory.path().join(name)).unwrap();
    }
    directory
}

fn valid() -> Vec<Vec<u8>> {
    let request = |line: &str, headers: &str, body: &str| {
        format!("{line} HTTP/1.1\r\nHost: x:8888\r\n{headers}\r\n{body}").into_bytes()
    };
    let with_length = |line: &str, headers: &str, body: &str| {
        request(line, &format!("{headers}Content-Length: {}\r\n", body.len()), body)
    };
    let chunked = |line: &str, headers: &str, body: &str| {
        let (front, back) = body.split_at(body.len() / 3);
        let chunk = |data: &str| format!("{:x};a=b\r\n{data}\r\n", data.len());
        let body = format!("{}{}0\r\nX-T: y\r\n\r\n", chunk(front), chunk(back));
        request(line, &format!("{headers}Transfer-Encoding: chunked\r\n"), &body)
    };
    let (json, form) =
        ("Content-Type: application/json\r\n", "Content-Type: multipart/form-data; boundary=BB\r\n");
    let echo = r#"{"command":"echo 'a b' \"c\\u00e9\"","timeout_seconds":2.5}"#;
    let part = |name: &str| {
        format!(
            "--BB\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\ncontent\r\n"
        )
    };
    let meta = "--BB\r\nContent-Disposition: form-data; name=meta\r\nX: y\r\n\r\nm\r\n--BBx\r\n";
    vec![
        request("GET /", "", ""),
        request("HEAD /", "", ""),
        request("GET /", "Connection: close\r\n", ""),
        b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".to_vec(),
        request("GET /exists/d%2Ff?x=y", "Transfer-Encoding: chunked\r\n", "0\r\n\r\n"),
        request("GET http://other/exists/d/f", "", ""),
        request("GET /exists/../%2e%2e/etc/passwd", "", ""),
        request("GET /list/", "", ""),
        request("GET /list/d", "Upgrade: h2c\r\nConnection: Upgrade\r\n", ""),
        request("GET /download/d/f", "", ""),
        request("GET /download/d/f", "Range: bytes=2-5\r\nIf-Range: \"x\"\r\n", ""),
        request("GET /download/d/f", "Range: bytes=2-5\r\n", ""),
        request("GET /download/d/f", "Range: bytes=20-\r\n", ""),
        request("GET /download/d/f", "If-None-Match: \"a\", *\r\n", ""),
        request("HEAD /download/d%2Ff", "Range: bytes=-3\r\n", ""),
        with_length("POST /execute", json, echo),
        with_length("POST /execute", &format!("{json}Expect: 100-continue\r\n"), r#"{"command":"true"}"#),
        with_length("POST /execute", "Content-Type: text/plain\r\n", echo),
        chunked("POST /execute", "Content-Type: application/x+json; charset=utf-8\r\n", echo),
        chunked("POST /execute", json, r#"{"x":[1,{"y":null}],"command":"true"}"#),
        with_length("POST /upload", form, &format!("{}--BB--\r\n", part("new/f"))),
        with_length("POST /upload", form, &format!("{}--BB--\r\n", part("../f"))),
        chunked("POST /upload", form, &format!("{meta}{}{}--BB--", part("f"), part("g%22\\\"h"))),
        with_length("POST /upload", "Content-Type: multipart/form-data; boundary=\"a b\"\r\n", "--a b--"),
        with_length("DELETE /upload", "Content-Type: application/json\r\nAuthorization: Bearer t\r\n", "x"),
    ]
}

/// Sends one mutant and returns the statuses of its responses.
fn send_one(server: &Server, valid: &[Vec<u8>], seed: u64, index: usize) -> Vec<u16> {
    // Each mutant has its own sequence of numbers, so that one can be repeated without those before it.
    let mut numbers = Numbers(seed.wrapping_add(index as u64).wrapping_mul(0xd1b5_4a32_d192_ed03));
    let mutant = mutant(&mut numbers, valid);
    let mut client = server.connect();
    let mut rest = mutant.as_slice();
    while !rest.is_empty() {
        let most = if numbers.below(4) == 0 { 40 } else { 1 << 20 };
        let (piece, after) = rest.split_at(rest.len().min(1 + numbers.below(most)));
        client.send(piece);
        rest = after;
    }
    // Some clients do not wait for the response.
    if numbers.below(20) == 0 {
        return Vec::new();
    }
    client.stream.shutdown(Shutdown::Write).unwrap();
    let mut received = Vec::new();
    let outcome = client.stream.read_to_end(&mut received);
    // A mutant does not show reliably whether it is a HEAD.
    let may_be_head = mutant.windows(4).any(|window| window == b"HEAD");
    let statuses = match &outcome {
        Ok(_) => statuses(&received, may_be_head),
        Err(error) => Err(error.to_string()),
    };
    let statuses = statuses.and_then(|statuses| {
        let is_blank = b"\r\n\r\n".starts_with(&mutant);
        if statuses.is_empty() && !is_blank { Err("no response".to_owned()) } else { Ok(statuses) }
    });
    statuses.unwrap_or_else(|fault| {
        let shown = |bytes: &[u8]| bytes[..bytes.len().min(4000)].escape_ascii().to_string();
        panic!("seed {seed}, number {index}: {fault}\n>>> {}\n<<< {}", shown(&mutant), shown(&received))
    })
}

fn mutant(numbers: &mut Numbers, valid: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..1 + numbers.below(3) {
        bytes.extend_from_slice(&valid[numbers.below(valid.len())]);
    }
    for _ in 0..numbers.below(6) {
        mutate(numbers, &mut bytes, valid);
    }
    bytes
}

const TOKENS: [&[u8]; 30] = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b" ",
    b"\t",
    b"\0",
    b"\xff",
    b"\xc3\xa9",
    b":",
    b";",
    b",",
    b"\"",
    b"\\",
    b"'",
    b"%",
    b"%00",
    b"%2e%2e%2f",
    b"../",
    b"//",
    b"--BB",
    b"\r\n--BB--",
    b"\r\n ",
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: close\r\n",
    b"Expect: 100-continue\r\n",
    b"0\r\n\r\n",
    b"{\"command\":",
    b"HTTP/1.0",
];

const FIGURES: [&str; 11] = [
    "0",
    "1",
    "00",
    "-1",
    "+5",
    "7f",
    "1e9",
    "100000",
    "99999999999",
    "18446744073709551615",
    "18446744073709551616",
];

fn mutate(numbers: &mut Numbers, bytes: &mut Vec<u8>, valid: &[Vec<u8>]) {
    let at = numbers.below(bytes.len() + 1);
    let end = (at + numbers.below(12)).min(bytes.len());
    match numbers.below(11) {
        0 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << numbers.below(8)),
        1 => {
            bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = numbers.below(256).try_into().unwrap())
        }
        2 => drop(bytes.drain(at..end)),
        3 => drop(bytes.splice(at..at, TOKENS[numbers.below(TOKENS.len())].iter().copied())),
        4 => drop(bytes.splice(at..end, TOKENS[numbers.below(TOKENS.len())].iter().copied())),
        5 => {
            let times = if numbers.below(20) == 0 { 1 + numbers.below(10_000) } else { 1 + numbers.below(4) };
            let repeated = bytes[at..end].repeat(times);
            drop(bytes.splice(at..at, repeated));
        }
        6 => {
            let is_figure = |byte: &u8| byte.is_ascii_digit();
            if let Some(start) = bytes[at..].iter().position(is_figure).map(|found| at + found) {
                let length = bytes[start..].iter().take_while(|byte| is_figure(byte)).count();
                let figure = FIGURES[numbers.below(FIGURES.len())];
                drop(bytes.splice(start..start + length, figure.bytes()));
            }
        }
        7 => bytes.truncate(at),
        8 => {
            let other = &valid[numbers.below(valid.len())];
            bytes.truncate(at);
            bytes.extend_from_slice(&other[numbers.below(other.len())..]);
        }
        9 => bytes[at..end]
            .iter_mut()
            .for_each(|byte| *byte ^= if byte.is_ascii_alphabetic() { 0x20 } else { 0 }),
        _ => {
            let mut lines: Vec<Vec<u8>> =
                bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
            if lines.is_empty() {
                return;
            }
            let (one, other) = (numbers.below(lines.len()), numbers.below(lines.len()));
            match numbers.below(3) {
                0 => lines.swap(one, other),
                1 => lines.insert(one, lines[other].clone()),
                _ => drop(lines.remove(one)),
            }
            *bytes = lines.concat();
        }
    }
}

/// The statuses of all responses, which must be complete and well-formed. If the request may be a HEAD, a
/// response may have no body.
fn statuses(bytes: &[u8], may_be_head: bool) -> Result<Vec<u16>, String> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let mut input = bytes.to_vec();
    let mut reader = Reader::new(std::io::empty(), &mut input);
    let head = reader.head()?;
    check_head(&head)?;
    let after = |rest: &[u8]| {
        if head.header("connection") == Some("close") && !rest.is_empty() {
            return Err("bytes after the last response".to_owned());
        }
        let mut following = statuses(rest, may_be_head)?;
        if head.status >= 200 {
            following.insert(0, head.status);
        }
        Ok(following)
    };
    if matches!(head.status, 100 | 304) {
        return after(behind_head(bytes));
    }
    let body = reader.body(&head).and_then(|body| check_body(&head, &body));
    match body.and_then(|()| after(&reader.remaining()?)) {
        Err(_) if may_be_head => after(behind_head(bytes)),
        outcome => outcome,
    }
}

fn behind_head(bytes: &[u8]) -> &[u8] {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
    end.map_or(&[], |at| &bytes[at + 4..])
}

fn check_head(head: &Response) -> Result<(), String> {
    if !matches!(head.status, 100 | 200..300 | 304 | 400..500) {
        return Err(format!("unexpected status {}", head.status));
    }
    if head.status != 100 && head.header("x-content-type-options") != Some("nosniff") {
        return Err("no nosniff".to_owned());
    }
    Ok(())
}

fn check_body(head: &Response, body: &[u8]) -> Result<(), String> {
    let has_framing = ["content-length", "transfer-encoding"].iter().any(|name| head.header(name).is_some());
    if !has_framing && head.header("connection") != Some("close") {
        return Err("a body that ends with the connection, which stays open".to_owned());
    }
    let is_json = head.header("content-type") == Some("application/json");
    if is_json && serde_json::from_slice::<serde_json::Value>(body).is_err() {
        return Err(format!("invalid JSON: {}", body.escape_ascii()));
    }
    Ok(())
}

/// Asserts that no upload has left a temporary file.
fn check_files(directory: &Path) {
    let entries: Vec<PathBuf> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    for path in entries {
        assert!(path.extension().is_none_or(|extension| extension != "tmp"), "{}", path.display());
        if path.is_dir() {
            check_files(&path);
        }
    }
}

#[test]
fn malformed_responses_are_detected() {
    let whole = |status: &str, headers: &str, body: &str| {
        format!("HTTP/1.1 {status}\r\nX-Content-Type-Options: nosniff\r\n{headers}\r\n{body}")
    };
    let two = whole("200 OK", "Content-Length: 2\r\n", "ok");
    let last = whole("404 Not Found", "Content-Length: 0\r\nConnection: close\r\n", "");
    let chunked = whole("200 OK", "Transfer-Encoding: chunked\r\n", "2\r\nok\r\n0\r\n\r\n");
    for (text, expected) in [
        (format!("{two}{chunked}{last}"), vec![200, 200, 404]),
        (format!("HTTP/1.1 100 Continue\r\n\r\n{two}"), vec![200]),
        (whole("304 Not Modified", "", "") + &two, vec![304, 200]),
        (whole("200 OK", "Connection: close\r\n", "rest"), vec![200]),
        (String::new(), vec![]),
    ] {
        assert_eq!(statuses(text.as_bytes(), false), Ok(expected), "{text}");
    }
    let head = two.strip_suffix("ok").unwrap();
    assert_eq!(statuses(format!("{head}{two}").as_bytes(), true), Ok(vec![200, 200]));
    for text in [
        head.to_owned(),
        format!("{head}{two}"),
        format!("{last}{two}"),
        format!("{two}x"),
        whole("500 Internal Server Error", "Content-Length: 0\r\n", ""),
        whole("301 Moved Permanently", "Content-Length: 0\r\n", ""),
        whole("200 OK", "", "rest"),
        whole("200 OK", "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", "ok"),
        whole("200 OK", "Content-Length: 2\r\nContent-Type: application/json\r\n", "{]"),
        whole("200 OK", "Content-Length: 2\nX: y\r\n", "ok"),
        whole("200 OK", "Content-Length: 2\r\nX\r\n", "ok"),
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_owned(),
        chunked.replace("2\r\nok", "3\r\nok"),
        chunked.replace("\r\n0\r\n\r\n", "\r\n"),
    ] {
        assert!(statuses(text.as_bytes(), false).is_err(), "{text}");
    }
}
