//! The life of a connection: keep-alive, slow and disconnecting clients, early rejections, closing.

use kit::{Client, Server, StopOnDrop, TempDir, binary, eventually, processes_with};
use serde_json::json;
use std::fs;
use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const PROBE: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: kube-probe/1.34\r\nConnection: close\r\n\r\n";

/// The median: a noisy machine delays some requests, a fault delays all of them.
fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn execute_request(command: &str) -> String {
    let body = json!({ "command": command }).to_string();
    let length = body.len();
    let head = "POST /execute HTTP/1.1\r\nHost: x\r\nContent-Type: application/json";
    format!("{head}\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// A sleep whose duration is unique to this call, so that its processes can be found by it.
fn own_sleep() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("sleep 3141.{:07}{number:03}", std::process::id())
}

#[test]
fn half_closed_client_gets_its_response() {
    // CN-01
    let server = Server::start();
    let mut client = server.connect();
    client.send(execute_request("sh -c 'sleep 1; echo hc'").as_bytes());
    client.stream.shutdown(Shutdown::Write).unwrap();
    let responses = client.responses();
    assert_eq!(responses.len(), 1);
    responses[0].check(200, &json!({ "stdout": "hc\n", "stderr": "", "exit_code": 0 }));
    for request in ["GET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.0\r\n\r\n"] {
        let mut client = server.connect();
        client.send(request.as_bytes());
        client.stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.responses()[0].status, 200);
    }
    // The commands run although the FIN arrives together with the requests.
    let mut client = server.connect();
    client.send(format!("{0}{0}", execute_request("echo both")).as_bytes());
    client.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.responses().len(), 2);
}

#[test]
fn disconnect_kills_the_command() {
    // CN-02
    let server = Server::start();
    let log = server.log();
    for by_reset in [true, false] {
        let sleep = own_sleep();
        let command = format!("sh -c '{sleep} & {sleep}; touch after'");
        let mut client = server.connect();
        if by_reset {
            client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        }
        client.send(execute_request(&command).as_bytes());
        assert!(eventually(|| processes_with(&sleep).len() >= 3), "the command has not started");
        let closed = Instant::now();
        // Closing a socket with unread data makes the kernel reset the connection (tcp(7)).
        if by_reset {
            assert!(client.wait_for_input());
        }
        drop(client);
        assert!(eventually(|| processes_with(&sleep).is_empty()), "by reset: {by_reset}");
        // One second on an idle machine.
        assert!(closed.elapsed() < Duration::from_secs(3), "by reset: {by_reset}: {:?}", closed.elapsed());
    }
    assert!(!server.base().join("after").exists());
    assert_eq!(server.log(), log);
    server.execute("echo well").check("well\n", "", 0);
}

#[test]
fn upload_rejection_reaches_a_client_still_sending() {
    // CN-04, CN-14
    let server = Server::with(&[("SANDBOX_MAX_UPLOAD_BYTES", "10485760")]);
    let piece = vec![b'x'; 1 << 20];
    for round in 0..50 {
        let mut client = server.connect();
        let is_chunked = round % 2 == 1;
        let framing = if is_chunked {
            "Transfer-Encoding: chunked".to_owned()
        } else {
            format!("Content-Length: {}", 32 << 20)
        };
        let head = "POST /upload HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=BB";
        client.send(format!("{head}\r\n{framing}\r\n\r\n").as_bytes());
        for _ in 0..32 {
            if is_chunked {
                client.send(b"100000\r\n");
                client.send(&piece);
                client.send(b"\r\n");
            } else {
                client.send(&piece);
            }
        }
        let response = client.response();
        response.check(413, &json!({ "detail": "the body is larger than 10485760 bytes" }));
        assert_eq!(response.header("connection"), Some("close"));
        assert!(client.is_closed(), "round {round}");
    }
}

#[test]
fn every_early_rejection_reaches_a_client_still_sending() {
    // CN-04, CN-14
    let server = Server::start();
    let body = vec![b'x'; 8 << 20];
    let form = "Content-Type: multipart/form-data; boundary=BB\r\n";
    let many = "X: y\r\n".repeat(1000);
    for (line, lines, status) in [
        ("POST /nosuch", "", 404),
        ("POST /", "", 405),
        ("PUT /download/x", "", 405),
        ("POST /execute", "", 422),
        ("POST /execute", "Content-Type: application/json\r\n", 422),
        ("POST /upload", "", 422),
        ("POST /upload", form, 400),
        ("POST /upload", "Content-Type: multipart/form-data\r\n", 400),
        ("POST /upload", many.as_str(), 431),
        ("POST /upload", "Bad Header: x\r\n", 400),
        ("GET /", "", 413),
        ("GET /list/%2e%2e", "", 413),
    ] {
        for _ in 0..3 {
            let mut client = server.connect();
            client.send(
                format!("{line} HTTP/1.1\r\nHost: x\r\n{lines}Content-Length: {}\r\n\r\n", body.len())
                    .as_bytes(),
            );
            client.send(&body);
            let response = client.response();
            assert_eq!(response.status, status, "{line} {lines:.50}");
            // Either the connection closes without a reset, or the body was read and the next request works.
            if response.header("connection") == Some("close") {
                assert!(client.is_closed(), "{line} {lines:.50}");
            } else {
                client.send_request("GET", "/", &[], b"");
                assert_eq!(client.response().status, 200, "{line} {lines:.50}");
            }
        }
    }
}

#[test]
fn slow_request_head_times_out_and_blocks_no_client() {
    // CN-05
    let server = Server::start();
    let started = Instant::now();
    let mut slow: Vec<Client> = (0..200).map(|_| server.connect()).collect();
    let line: Vec<u8> =
        b"GET / HTTP/1.1\r\nX: ".iter().copied().chain(std::iter::repeat(b'y')).take(60).collect();
    let mut sent = line.iter();
    // Each byte arrives soon enough to extend any deadline that a byte would renew.
    let mut is_rejected = false;
    while !is_rejected && started.elapsed() < Duration::from_secs(35) {
        let byte = *sent.next().unwrap_or(&b'y');
        is_rejected = slow.iter().any(has_input);
        if !is_rejected {
            slow.iter_mut().for_each(|client| client.send(&[byte]));
        }
        let probed = Instant::now();
        assert_eq!(server.get("/").status, 200);
        assert!(probed.elapsed() < Duration::from_secs(2), "{:?}", probed.elapsed());
        std::thread::sleep(Duration::from_millis(500));
    }
    assert!(started.elapsed() > Duration::from_secs(15), "{:?}", started.elapsed());
    for mut client in slow {
        client.response().check(408, &json!({ "detail": "timed out reading the request" }));
        assert!(client.is_closed());
    }
    assert!(started.elapsed() < Duration::from_secs(35), "{:?}", started.elapsed());
    assert_eq!(server.get("/").status, 200);
}

fn has_input(client: &Client) -> bool {
    client.stream.set_nonblocking(true).unwrap();
    let has_input = client.stream.peek(&mut [0]).is_ok();
    client.stream.set_nonblocking(false).unwrap();
    has_input
}

#[test]
fn probes_leak_no_descriptors_and_log_nothing() {
    // CN-09
    let server = Server::start();
    let descriptors = server.descriptors();
    let log = server.log();
    for _ in 0..1000 {
        let mut client = server.connect();
        client.send(PROBE);
        let response = client.response();
        response.check(200, &json!({ "status": "ok", "message": "Sandbox Runtime is active." }));
        assert_eq!(response.header("connection"), Some("close"));
        assert!(client.is_closed());
        drop(TcpStream::connect(server.address()).unwrap());
    }
    assert!(eventually(|| server.descriptors() <= descriptors), "{} of {descriptors}", server.descriptors());
    assert_eq!(server.log(), log);
}

#[test]
fn keep_alive_survives_the_worker_handover() {
    // CN-10. A worker keeps an idle connection for 50 ms, then hands it back. No request may be lost then.
    let server = Server::start();
    let mut client = server.connect();
    for round in 0..60 {
        client.send_request("GET", "/exists/x", &[], b"");
        client.response().check(200, &json!({ "path": "x", "exists": false }));
        std::thread::sleep(Duration::from_micros(48_000 + round * 80));
    }
    std::thread::sleep(Duration::from_millis(1500));
    client.send_request("GET", "/exists/x", &[], b"");
    assert_eq!(client.response().status, 200);
}

#[test]
fn keep_alive_responses_are_not_delayed() {
    // CN-11. Two small writes and a delayed ACK would cost 40 ms per response.
    let server = Server::start();
    fs::write(server.base().join("f"), vec![b'x'; 8 << 10]).unwrap();
    let requests = [
        "GET /exists/a HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
        "GET /download/f HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
        "GET /list/ HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
        execute_request("echo x"),
    ];
    for request in requests {
        let mut client = server.connect();
        let mut times = Vec::new();
        for _ in 0..20 {
            let started = Instant::now();
            client.send(request.as_bytes());
            assert_eq!(client.response().status, 200);
            times.push(started.elapsed());
        }
        let time = median(times);
        assert!(time < Duration::from_millis(30), "{request:.30}: {time:?}");
    }
}

#[test]
fn connection_closes_right_after_the_last_response() {
    // CN-15
    let server = Server::start();
    for request in
        ["GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "GET / HTTP/1.0\r\n\r\n", "BAD\r\n\r\n"]
    {
        let mut times = Vec::new();
        for _ in 0..9 {
            let mut client = server.connect();
            client.send(request.as_bytes());
            client.response();
            let received = Instant::now();
            assert!(client.is_closed());
            times.push(received.elapsed());
        }
        let time = median(times);
        assert!(time < Duration::from_millis(50), "{request:?}: {time:?}");
    }
}

#[test]
fn idle_connections_use_no_threads() {
    let server = Server::start();
    assert_eq!(server.get("/").status, 200);
    let count = (descriptor_limit() / 2).saturating_sub(200).min(2000);
    let idle: Vec<TcpStream> = (0..count).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    assert!(eventually(|| server.descriptors() >= count), "{} of {count}", server.descriptors());
    let started = Instant::now();
    assert_eq!(server.get("/").status, 200);
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    assert!(server.threads() < 16, "{} threads for {count} connections", server.threads());
    // Some were used before they became idle.
    let used: Vec<Client> = (0..100)
        .map(|_| {
            let mut client = server.connect();
            client.send_request("GET", "/", &[], b"");
            assert_eq!(client.response().status, 200);
            client
        })
        .collect();
    server.execute("echo x").check("x\n", "", 0);
    assert!(server.peak_memory_kib() < 32 << 10, "{} KiB", server.peak_memory_kib());
    drop((idle, used));
    assert!(eventually(|| server.descriptors() < 50), "{}", server.descriptors());
}

/// The descriptor limit of this process and of the server.
fn descriptor_limit() -> usize {
    let limits = fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line.split_whitespace().nth(3).unwrap().parse().unwrap_or(usize::MAX)
}

#[test]
fn sequential_connections_leak_no_resources() {
    // CN-17
    let server = Server::start();
    let run = |count: usize| {
        for _ in 0..count {
            server.execute("true").check("", "", 0);
        }
    };
    run(100);
    assert!(eventually(|| server.threads() < 16), "{}", server.threads());
    let (descriptors, threads, memory) = (server.descriptors(), server.threads(), server.peak_memory_kib());
    run(900);
    assert!(eventually(|| server.descriptors() <= descriptors), "{} of {descriptors}", server.descriptors());
    assert!(eventually(|| server.threads() <= threads + 2), "{} of {threads}", server.threads());
    assert!(server.peak_memory_kib() < memory + 1024, "{} KiB, then {}", memory, server.peak_memory_kib());
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", server.pid())).unwrap();
    assert_eq!(children.trim(), "", "the server still has child processes");
}

#[test]
fn restart_on_the_same_port_succeeds_immediately() {
    // CN-19. A separate loopback address, so that no connection of another test can take the port.
    let start = |address: &str| {
        let base = TempDir::new();
        let mut command = binary();
        command.args(["--listen", address]).env("SANDBOX_BASE_DIR", base.path());
        Server::from_command(command, base)
    };
    let mut server = start("127.0.0.77:0");
    let address = server.address();
    let stop = AtomicBool::new(false);
    let succeeded = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    use std::io::{Read, Write};
                    let Ok(mut stream) = TcpStream::connect(address) else { continue };
                    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                    let mut response = Vec::new();
                    let exchange = stream.write_all(PROBE).and_then(|()| stream.read_to_end(&mut response));
                    if exchange.is_ok() && response.starts_with(b"HTTP/1.1 200") {
                        succeeded.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for round in 0..10 {
            let before = succeeded.load(Ordering::Relaxed);
            assert!(eventually(|| succeeded.load(Ordering::Relaxed) > before + 20), "round {round}");
            let pid = server.pid().to_string();
            assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
            assert!(server.wait().success(), "round {round}");
            server = start(&address.to_string());
        }
    });
    assert_eq!(server.get("/").status, 200);
}
