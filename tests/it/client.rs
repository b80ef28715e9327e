//! Clients that wait for a command: connected, half-closed, disconnected, and behind a proxy.

use kit::{Client, Remote, Server, eventually, own_sleep, processes_with};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

fn send_command(client: &mut Client, version: &str, command: &str) {
    let body = json!({ "command": command }).to_string();
    let length = body.len();
    let head = format!("POST /execute HTTP/{version}\r\nHost: x\r\nContent-Type: application/json");
    client.send(format!("{head}\r\nContent-Length: {length}\r\n\r\n{body}").as_bytes());
}

#[test]
fn half_closed_client_gets_keep_alive_spaces() {
    // CN-01: the head is sent at once, then spaces as probes of whether the client is still connected.
    let server = Server::start();
    for version in ["1.1", "1.0"] {
        let mut client = server.connect();
        send_command(&mut client, version, "sh -c 'sleep 1.5; echo hc'");
        let sent = Instant::now();
        client.stream.shutdown(Shutdown::Write).unwrap();
        assert!(client.wait_for_input());
        assert!(sent.elapsed() < Duration::from_millis(1400), "{version}: {:?}", sent.elapsed());
        let response = client.response();
        assert_eq!(
            response.header("transfer-encoding"),
            (version == "1.1").then_some("chunked"),
            "{response:?}"
        );
        assert_eq!(response.header("content-length"), None, "{response:?}");
        assert!(response.body.starts_with(b"  "), "{response:?}");
        response.check(200, &json!({ "stdout": "hc\n", "stderr": "", "exit_code": 0 }));
        assert!(client.is_closed() || version == "1.1");
    }
}

#[test]
fn response_to_a_long_command_begins_early() {
    let server = Server::start();
    thread::scope(|scope| {
        for version in ["1.1", "1.0"] {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.connect();
                let sent = Instant::now();
                send_command(&mut client, version, "sh -c 'sleep 2; echo long'");
                assert!(client.wait_for_input());
                let begun = sent.elapsed();
                assert!(begun >= Duration::from_millis(500) && begun < Duration::from_secs(2), "{begun:?}");
                let response = client.response();
                response.check(200, &json!({ "stdout": "long\n", "stderr": "", "exit_code": 0 }));
                assert!(sent.elapsed() >= Duration::from_secs(2));
                if version == "1.1" {
                    client.send_request("GET", "/exists/x", &[], b"");
                    client.response().check(200, &json!({ "path": "x", "exists": false }));
                } else {
                    assert!(client.is_closed());
                }
            });
        }
    });
}

#[test]
fn disconnect_behind_a_proxy_kills_the_command() {
    let server = Server::start();
    let proxy = proxy(server.address());
    // The proxy works.
    let mut client = Remote(proxy).connect();
    send_command(&mut client, "1.1", "echo through");
    assert_eq!(client.response().json()["stdout"], Value::from("through\n"));
    let sleep = own_sleep(30);
    send_command(&mut client, "1.1", &format!("sh -c 'setsid {sleep} & {sleep}; touch after'"));
    assert!(eventually(|| processes_with(&sleep).len() >= 3));
    let disconnected = Instant::now();
    drop(client);
    assert!(eventually(|| processes_with(&sleep).is_empty()));
    assert!(disconnected.elapsed() < Duration::from_secs(5), "{:?}", disconnected.elapsed());
    assert!(!server.base().join("after").exists());
}

/// Forwards one connection as proxies do: an end of input from one peer is a half-close towards the other.
/// When a peer accepts no more bytes, both connections are closed.
fn proxy(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        let server = TcpStream::connect(server).unwrap();
        let (from_client, to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let upstream = thread::spawn(move || forward(from_client, to_server));
        forward(server, client);
        upstream.join().unwrap();
    });
    address
}

fn forward(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = [0; 4096];
    loop {
        match from.read(&mut bytes) {
            Ok(0) => return drop(to.shutdown(Shutdown::Write)),
            Ok(count) if to.write_all(&bytes[..count]).is_ok() => {}
            _ => {
                drop(from.shutdown(Shutdown::Both));
                return drop(to.shutdown(Shutdown::Both));
            }
        }
    }
}
