//! Whoever waits for the answer of a command: stays, is slow, has said all, is behind a proxy, or is gone.

use crate::harness::{Client, Server, eventually, own_sleep, processes_with};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

fn send_command(client: &mut Client, version: &str, command: &str) {
    let body = json!({ "command": command }).to_string();
    let length = body.len();
    client.send(
        format!("POST /execute HTTP/{version}\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
            .as_bytes(),
    );
}

#[test]
fn a_client_that_has_said_all_gets_its_answer_behind_white_space() {
    // CN-01: the head comes at once, and then now and then a space, to see whether the client is there.
    let server = Server::start();
    for version in ["1.1", "1.0"] {
        let mut client = server.connect();
        send_command(&mut client, version, "sh -c 'sleep 1.5; echo hc'");
        let sent = Instant::now();
        client.stream.shutdown(Shutdown::Write).unwrap();
        assert!(client.wait_for_input());
        assert!(sent.elapsed() < Duration::from_millis(1400), "{version}: {:?}", sent.elapsed());
        let answer = client.answer();
        assert_eq!(answer.header("transfer-encoding"), (version == "1.1").then_some("chunked"), "{answer:?}");
        assert_eq!(answer.header("content-length"), None, "{answer:?}");
        assert!(answer.body.starts_with(b"  "), "{answer:?}");
        answer.check(200, &json!({ "stdout": "hc\n", "stderr": "", "exit_code": 0 }));
        assert!(client.is_closed() || version == "1.1");
    }
}

#[test]
fn a_long_command_s_answer_begins_before_it_ends() {
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
                let answer = client.answer();
                answer.check(200, &json!({ "stdout": "long\n", "stderr": "", "exit_code": 0 }));
                assert!(sent.elapsed() >= Duration::from_secs(2));
                if version == "1.1" {
                    client.send_request("GET", "/exists/x", &[], b"");
                    client.answer().check(200, &json!({ "path": "x", "exists": false }));
                } else {
                    assert!(client.is_closed());
                }
            });
        }
    });
}

#[test]
fn a_client_that_is_gone_behind_a_proxy_takes_its_command_with_it() {
    let server = Server::start();
    let proxy = proxy(server.address());
    // First that an answer comes through it.
    let mut client = Client::new(TcpStream::connect(proxy).unwrap());
    send_command(&mut client, "1.1", "echo through");
    assert_eq!(client.answer().json()["stdout"], Value::from("through\n"));
    let sleep = own_sleep(30);
    send_command(&mut client, "1.1", &format!("sh -c 'setsid {sleep} & {sleep}; touch after'"));
    assert!(eventually(|| processes_with(&sleep).len() >= 3));
    let left = Instant::now();
    drop(client);
    assert!(eventually(|| processes_with(&sleep).is_empty()));
    assert!(left.elapsed() < Duration::from_secs(5), "{:?}", left.elapsed());
    assert!(!server.base().join("after").exists());
}

/// Passes one connection on, and the end of one side as the end of sending to the other, as proxies do; gives up when
/// somebody takes no more.
fn proxy(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        let server = TcpStream::connect(server).unwrap();
        let (from_client, to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let there = thread::spawn(move || pass_on(from_client, to_server));
        pass_on(server, client);
        there.join().unwrap();
    });
    address
}

fn pass_on(mut from: TcpStream, mut to: TcpStream) {
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
