//! `GET /download/{path}`.

use kit::{Response, Server, StopOnDrop, TempDir, binary, eventually, uninterrupted};
use serde_json::json;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const DIGITS: &str = "0123456789";

fn server_with_digits() -> Server {
    let server = Server::start();
    fs::write(server.base().join("f.txt"), DIGITS).unwrap();
    server
}

#[track_caller]
fn check_not_found(response: &Response) {
    response.check(404, &json!({ "message": "File not found" }));
}

#[test]
fn non_regular_file_is_404_and_never_opened() {
    // DL-01
    let server = Server::start();
    let base = server.base();
    fs::create_dir(base.join("d")).unwrap();
    assert!(Command::new("mkfifo").arg(base.join("fifo")).status().unwrap().success());
    std::os::unix::fs::symlink("fifo", base.join("link")).unwrap();
    let _socket = UnixListener::bind(base.join("socket")).unwrap();
    for name in ["fifo", "link", "socket", "d", "d/", "", ".", "none", "d/none", "fifo/x"] {
        let started = Instant::now();
        check_not_found(&server.get(&format!("/download/{name}")));
        check_not_found(&server.get(&format!("/download/{}", name.replace('/', "%2F"))));
        assert!(started.elapsed() < Duration::from_secs(2), "{name}: {:?}", started.elapsed());
        let head = server.request("HEAD", &format!("/download/{name}"), &[], b"");
        assert_eq!(head.status, 404, "{name}");
    }
    // If the server had opened the FIFO for reading, opening it for writing would not fail with ENXIO.
    let writer = File::options().write(true).open_nonblocking(base.join("fifo"));
    assert_eq!(writer.unwrap_err().raw_os_error(), Some(6), "the server has opened the FIFO");
}

/// Opens a FIFO without waiting for a reader (`O_NONBLOCK`, fifo(7)).
trait OpenNonblocking {
    fn open_nonblocking(&mut self, path: std::path::PathBuf) -> std::io::Result<File>;
}

impl OpenNonblocking for fs::OpenOptions {
    fn open_nonblocking(&mut self, path: std::path::PathBuf) -> std::io::Result<File> {
        use std::os::unix::fs::OpenOptionsExt;
        const O_NONBLOCK: i32 = 0o4000;
        self.custom_flags(O_NONBLOCK).open(path)
    }
}

#[test]
fn growing_file_is_sent_at_its_announced_length() {
    // DL-03
    let server = Server::start();
    let path = server.base().join("log");
    let mut log = File::create(&path).unwrap();
    let piece = vec![b'x'; 64 << 10];
    log.write_all(&piece).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        scope.spawn(|| {
            // At most 26 MB.
            for _ in 0..400 {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                log.write_all(&piece).unwrap();
                std::thread::sleep(Duration::from_micros(500));
            }
        });
        let mut client = server.connect();
        let mut lengths = Vec::new();
        for _ in 0..10 {
            client.send_request("GET", "/download/log", &[], b"");
            let response = client.response();
            assert_eq!(response.status, 200);
            assert!(response.body.iter().all(|byte| *byte == b'x'));
            lengths.push(response.body.len());
        }
        assert!(lengths.first() < lengths.last(), "it did not grow: {lengths:?}");
    });
}

#[test]
fn shrinking_file_closes_the_connection_without_padding() {
    let server = Server::start();
    let path = server.base().join("big");
    fs::write(&path, vec![b'x'; 32 << 20]).unwrap();
    let mut client = server.connect();
    client.send_request("GET", "/download/big", &[], b"");
    let mut start = vec![0; 4096];
    client.stream.read_exact(&mut start).unwrap();
    fs::write(&path, b"").unwrap();
    let mut rest = Vec::new();
    // The connection closes or is reset, before the announced length.
    let _reset_or_end = client.stream.read_to_end(&mut rest);
    assert!(rest.len() < 32 << 20, "{}", rest.len());
    assert!(rest.iter().all(|byte| *byte == b'x'));
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn replaced_file_is_sent_as_it_was_opened() {
    let server = Server::start();
    fs::write(server.base().join("big"), vec![b'o'; 16 << 20]).unwrap();
    let mut client = server.connect();
    client.send_request("GET", "/download/big", &[], b"");
    assert!(client.wait_for_input());
    assert_eq!(server.upload("big", b"new").status, 200);
    let response = client.response();
    assert!(response.body.len() == 16 << 20 && response.body.iter().all(|byte| *byte == b'o'));
    assert_eq!(server.get("/download/big").body, b"new");
}

#[test]
fn large_file_is_streamed_in_constant_memory() {
    // DL-05, with a smaller file: 256 MiB need no more memory than none.
    let server = Server::start();
    let size = 256 << 20;
    let file = File::create(server.base().join("big")).unwrap();
    file.set_len(size).unwrap();
    file.write_all_at(b"end", size - 3).unwrap();
    let mut client = server.connect();
    client.send_request("GET", "/download/big", &[("Connection", "close")], b"");
    let (mut total, mut last) = (0, [0; 3]);
    let mut piece = vec![0; 1 << 20];
    loop {
        let count = uninterrupted(|| client.stream.read(&mut piece)).unwrap();
        if count == 0 {
            break;
        }
        if count >= 3 {
            last.copy_from_slice(&piece[count - 3..count]);
        }
        total += count as u64;
    }
    assert!(total > size && total < size + 1000, "{total}");
    assert_eq!(&last, b"end");
    assert!(server.peak_memory_kib() < 16 << 10, "{} KiB", server.peak_memory_kib());
}

#[test]
fn stalled_downloads_block_no_other_client() {
    let server = Server::start();
    File::create(server.base().join("big")).unwrap().set_len(1 << 30).unwrap();
    let readers: Vec<_> = (0..8)
        .map(|_| {
            let mut client = server.connect();
            client.send_request("GET", "/download/big", &[], b"");
            assert!(client.wait_for_input());
            client
        })
        .collect();
    let started = Instant::now();
    assert_eq!(server.get("/").status, 200);
    server.execute("echo x").check("x\n", "", 0);
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    let descriptors = server.descriptors();
    drop(readers);
    assert!(eventually(|| server.descriptors() <= descriptors - 16), "{}", server.descriptors());
}

#[test]
fn sparse_file_has_its_full_length() {
    // DL-15
    let server = Server::start();
    let size: u64 = 5 << 30;
    let file = File::create(server.base().join("hole")).unwrap();
    file.set_len(size).unwrap();
    file.write_all_at(b"end", size - 3).unwrap();
    let mut client = server.connect();
    client.send_request("HEAD", "/download/hole", &[], b"");
    assert_eq!(client.response_to("HEAD").header("content-length"), Some("5368709120"));
    client.send_request("GET", "/download/hole", &[("Range", "bytes=-3")], b"");
    let end = client.response();
    assert_eq!(end.header("content-range"), Some("bytes 5368709117-5368709119/5368709120"));
    assert_eq!((end.status, end.body.as_slice()), (206, &b"end"[..]));
    client.send_request("GET", "/download/hole", &[], b"");
    let mut start = vec![0; 1 << 20];
    client.stream.read_exact(&mut start).unwrap();
    assert!(String::from_utf8_lossy(&start).contains("\r\nContent-Length: 5368709120\r\n"));
}

#[test]
fn unsatisfiable_range_is_416_with_the_file_size() {
    // DL-07
    let server = server_with_digits();
    fs::write(server.base().join("empty"), "").unwrap();
    for (name, range, size) in [
        ("f.txt", "bytes=10-", 10),
        ("f.txt", "bytes=-0", 10),
        ("f.txt", "bytes=10-20", 10),
        ("f.txt", "bytes=18446744073709551615-", 10),
        ("f.txt", "bytes=18446744073709551616-18446744073709551617", 10),
        ("empty", "bytes=0-", 0),
        ("empty", "bytes=-1", 0),
    ] {
        let response = server.request("GET", &format!("/download/{name}"), &[("Range", range)], b"");
        response.check(416, &json!({ "detail": "Range Not Satisfiable" }));
        assert_eq!(response.header("content-range"), Some(format!("bytes */{size}").as_str()), "{range}");
    }
}

#[test]
fn invalid_or_multiple_ranges_send_the_whole_file() {
    // DL-07
    let server = server_with_digits();
    for range in [
        "bytes=0-1,3-4",
        "bytes=3-1",
        "bytes=",
        "bytes=-",
        "bytes=a-b",
        "bytes=+1-2",
        "bytes=1-+2",
        "bytes=0x1-2",
        "items=0-1",
        "0-1",
        "bytes 0-1",
        "bytes=1",
        "bytes=--1",
        "bytes=1-2-3",
        "bytes=0.5-1",
        "",
    ] {
        let response = server.request("GET", "/download/f.txt", &[("Range", range)], b"");
        assert_eq!((response.status, response.body.as_slice()), (200, DIGITS.as_bytes()), "{range}");
        assert_eq!(response.header("content-range"), None, "{range}");
    }
    let twice = [("Range", "bytes=0-1"), ("Range", "bytes=2-3")];
    assert_eq!(server.request("GET", "/download/f.txt", &twice, b"").status, 400);
}

#[test]
fn conditional_request_for_an_unchanged_file_is_304() {
    let server = server_with_digits();
    let first = server.get("/download/f.txt");
    let (etag, date) = (first.header("etag").unwrap(), first.header("last-modified").unwrap());
    let get = |headers: &[(&str, &str)]| server.request("GET", "/download/f.txt", headers, b"").status;
    let weak = format!("W/{etag}");
    let several = format!("\"x\", {etag}");
    assert_eq!(get(&[("If-None-Match", etag)]), 304);
    assert_eq!(get(&[("If-None-Match", &weak)]), 304);
    assert_eq!(get(&[("If-None-Match", &several)]), 304);
    assert_eq!(get(&[("If-None-Match", "*")]), 304);
    assert_eq!(get(&[("If-None-Match", "\"x\"")]), 200);
    assert_eq!(get(&[("If-None-Match", "")]), 200);
    assert_eq!(get(&[("If-Modified-Since", date)]), 304);
    assert_eq!(get(&[("If-Modified-Since", "yesterday")]), 200);
    assert_eq!(get(&[("If-None-Match", "\"x\""), ("If-Modified-Since", date)]), 200);
    assert_eq!(get(&[("Range", "bytes=0-1"), ("If-Range", etag)]), 206);
    assert_eq!(get(&[("Range", "bytes=0-1"), ("If-Range", date)]), 206);
    assert_eq!(get(&[("Range", "bytes=0-1"), ("If-Range", "\"x\"")]), 200);
    let mut client = server.connect();
    client.send_request("GET", "/download/f.txt", &[("If-None-Match", etag)], b"");
    let not_modified = client.response();
    assert_eq!((not_modified.header("etag"), not_modified.header("content-length")), (Some(etag), None));
    // A 304 has no body, so the next response follows directly.
    client.send_request("GET", "/download/f.txt", &[], b"");
    assert_eq!(client.response().body, DIGITS.as_bytes());
    server.upload("f.txt", b"abcdefghij");
    assert_eq!(get(&[("If-None-Match", etag)]), 200);
}

#[test]
fn file_name_cannot_inject_headers() {
    // DL-09
    let server = Server::start();
    for (name, target, disposition) in [
        (
            "n\r\nSet-Cookie: a=b",
            "n%0D%0ASet-Cookie:%20a=b",
            "filename=\"n__Set-Cookie: a=b\"; filename*=utf-8''n%0D%0ASet-Cookie%3A%20a%3Db",
        ),
        ("n\nx", "n%0Ax", "filename=\"n_x\"; filename*=utf-8''n%0Ax"),
        ("q\"q", "q%22q", "filename=\"q_q\"; filename*=utf-8''q%22q"),
        ("b\\b", "b%5Cb", "filename=\"b_b\"; filename*=utf-8''b%5Cb"),
        ("分.txt", "%E5%88%86.txt", "filename=\"_.txt\"; filename*=utf-8''%E5%88%86.txt"),
        ("a b;c.txt", "a%20b;c.txt", "filename=\"a b;c.txt\""),
        ("100%", "100%25", "filename=\"100_\"; filename*=utf-8''100%25"),
        ("e\u{1b}[2J", "e%1B[2J", "filename=\"e_[2J\"; filename*=utf-8''e%1B%5B2J"),
        ("'", "'", "filename=\"'\""),
    ] {
        fs::write(server.base().join(name), name).unwrap();
        let response = server.get(&format!("/download/{target}"));
        assert_eq!((response.status, response.body.as_slice()), (200, name.as_bytes()), "{target}");
        let expected = format!("attachment; {disposition}");
        assert_eq!(response.header("content-disposition"), Some(expected.as_str()), "{target}");
        assert_eq!(response.header("set-cookie"), None);
    }
    fs::create_dir(server.base().join("d")).unwrap();
    fs::write(server.base().join("d/x"), "x").unwrap();
    for target in ["/download/d/x", "/download/d%2Fx"] {
        let response = server.get(target);
        assert_eq!(response.header("content-disposition"), Some("attachment; filename=\"x\""));
    }
}

#[test]
fn unreadable_file_is_denied() {
    // DL-14. Root can read everything, so the server runs as another user.
    let scratch = TempDir::new();
    let base = scratch.path().join("base");
    fs::create_dir(&base).unwrap();
    fs::create_dir(base.join("closed")).unwrap();
    for name in ["secret", "open", "closed/x"] {
        fs::write(base.join(name), "content").unwrap();
    }
    for (name, mode) in [("secret", 0o000), ("closed", 0o000)] {
        fs::set_permissions(base.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let Some(server) = start_unprivileged(scratch) else { return };
    assert_eq!(server.get("/download/open").body, b"content");
    for target in ["/download/secret", "/download/closed/x"] {
        let response = server.get(target);
        response.check(403, &json!({ "message": "Access denied" }));
    }
    server.get("/list/closed").check(403, &json!({ "message": "Access denied" }));
    // EXI-02
    server.get("/exists/closed/x").check(200, &json!({ "path": "closed/x", "exists": false }));
    let rejected = server.upload("closed/x", b"y");
    assert!((400..500).contains(&rejected.status), "{rejected:?}");
}

/// Serves `base` in the directory as an unprivileged user. `None`, with a message, if that is not possible.
fn start_unprivileged(scratch: TempDir) -> Option<Server> {
    use std::os::unix::process::CommandExt;
    let base = scratch.path().join("base");
    let is_root = fs::metadata("/proc/self").map(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0).unwrap();
    let mut command = binary();
    if is_root {
        // Other users may not be able to reach the build directory.
        let copied = binary().arg("install").arg(scratch.path()).output().unwrap();
        assert!(copied.status.success());
        command = Command::new(scratch.path().join("sandbox-runtime"));
        command.uid(65534).gid(65534).current_dir("/");
        if Command::new("true").uid(65534).status().is_err() {
            eprintln!("skipped: cannot switch to another user");
            return None;
        }
    }
    command.env("SANDBOX_BASE_DIR", base);
    Some(Server::from_command(command, scratch))
}
