//! One connection to a server.

use crate::{Reader, Response, TIMEOUT, uninterrupted};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;

/// One connection.
#[derive(Debug)]
pub struct Client {
    pub stream: TcpStream,
    input: Vec<u8>,
}

impl Client {
    pub fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        Self { stream, input: Vec::new() }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub fn send_request(&mut self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) {
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: test\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() || method == "POST" {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        self.send(&[head.as_bytes(), body].concat());
    }

    /// Sends `POST /execute` with this command.
    pub fn send_command(&mut self, command: &str) {
        let body = json!({ "command": command }).to_string();
        self.send_request("POST", "/execute", &[("Content-Type", "application/json")], body.as_bytes());
    }

    /// The next response on this connection. The request must not be a HEAD.
    #[track_caller]
    pub fn response(&mut self) -> Response {
        self.response_to("GET")
    }

    #[track_caller]
    pub fn response_to(&mut self, method: &str) -> Response {
        let response = Reader::new(&self.stream, &mut self.input).response(method);
        response.unwrap_or_else(|fault| panic!("{fault}"))
    }

    /// Every response up to the end of the connection.
    #[track_caller]
    pub fn responses(&mut self) -> Vec<Response> {
        let mut responses = Vec::new();
        while !self.input.is_empty() || self.wait_for_input() {
            responses.push(self.response());
        }
        responses
    }

    /// All bytes up to the end of the connection.
    #[track_caller]
    pub fn remaining(&mut self) -> Vec<u8> {
        Reader::new(&self.stream, &mut self.input).remaining().unwrap()
    }

    /// Whether the server has closed this connection and all bytes have been read.
    pub fn is_closed(&mut self) -> bool {
        self.input.is_empty() && uninterrupted(|| self.stream.read(&mut [0])).is_ok_and(|count| count == 0)
    }

    /// Puts back bytes that were read from the stream directly.
    pub fn unread(&mut self, bytes: Vec<u8>) {
        self.input.splice(..0, bytes);
    }

    /// Waits for the next byte without consuming it. `false` at the end of the connection.
    pub fn wait_for_input(&self) -> bool {
        uninterrupted(|| self.stream.peek(&mut [0])).unwrap() > 0
    }
}
