//! An HTTP/1.1 client (RFC 9112): it sends bytes unchanged, parses responses strictly, and waits under a
//! [`Deadline`].
//!
//! Requests are deliberately not validated, since many must be malformed. The client follows no redirect,
//! retries nothing, and never reuses a connection implicitly.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::escape::escaped;

const MAX_LINE_BYTES: u64 = 16 << 10;
const MAX_HEADERS: usize = 100;
/// Of a body that is kept in memory.
const MAX_BODY_BYTES: usize = 512 << 20;

#[derive(Clone, Copy)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    pub(crate) fn after(timeout: Duration) -> Self {
        Self(Instant::now() + timeout)
    }

    /// Never zero, which a socket would treat as "no timeout".
    fn remaining(self) -> io::Result<Duration> {
        match self.0.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            remaining => Ok(remaining),
        }
    }
}

pub(crate) struct Server {
    /// The value of the Host header: an IPv6 address is in brackets.
    pub(crate) name: String,
    addresses: Vec<SocketAddr>,
}

impl Server {
    pub(crate) fn resolve(host: &str, port: u16, deadline: Deadline) -> Result<Self, Error> {
        let addresses = match host.parse::<IpAddr>() {
            Ok(ip) => vec![SocketAddr::new(ip, port)],
            Err(_) => addresses_of(host.to_owned(), port, deadline).map_err(Error::Resolve)?,
        };
        let name = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        Ok(Self { name, addresses })
    }

    pub(crate) fn connect(&self, deadline: Deadline) -> Result<Connection, Error> {
        Ok(Connection { reader: BufReader::new(self.stream(deadline)?) })
    }

    pub(crate) fn stream(&self, deadline: Deadline) -> Result<TimedStream, Error> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in &self.addresses {
            let timeout = deadline.remaining().map_err(Error::Connect)?;
            match TcpStream::connect_timeout(address, timeout)
                .and_then(|stream| TimedStream::new(stream, deadline))
            {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(Error::Connect(last))
    }

    /// Whether the server certainly runs on this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        self.addresses.iter().all(|address| address.ip().is_loopback())
    }
}

/// The system's resolver has no timeout. A thread that is late is abandoned; this process exits soon after.
fn addresses_of(host: String, port: u16, deadline: Deadline) -> io::Result<Vec<SocketAddr>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        // The receiver is dropped after a timeout.
        let _ = sender.send((host.as_str(), port).to_socket_addrs().map(Vec::from_iter));
    });
    receiver.recv_timeout(deadline.remaining()?).map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

pub(crate) struct Connection {
    reader: BufReader<TimedStream>,
}

impl Connection {
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.reader.get_mut().write_all(bytes).map_err(Error::Send)
    }

    /// Shuts down the sending side; responses can still arrive.
    pub(crate) fn half_close(&mut self) -> Result<(), Error> {
        self.reader.get_ref().stream.shutdown(Shutdown::Write).map_err(Error::Send)
    }

    pub(crate) fn response(&mut self, method: Method) -> Result<Response, Error> {
        read_response(&mut self.reader, method)
    }

    /// `Ok` if the server has closed the connection and sent nothing more.
    pub(crate) fn expect_closed(&mut self) -> Result<(), Error> {
        match self.reader.fill_buf() {
            Ok([]) => Ok(()),
            Ok(bytes) => Err(Error::Malformed(format!("unexpected bytes: {}", escaped(bytes)))),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(()),
            Err(error) => Err(Error::Receive(error)),
        }
    }
}

/// A stream whose reads and writes time out at the deadline.
pub(crate) struct TimedStream {
    pub(crate) stream: TcpStream,
    pub(crate) deadline: Deadline,
}

impl TimedStream {
    fn new(stream: TcpStream, deadline: Deadline) -> io::Result<TimedStream> {
        // A request sent in pieces must arrive in the same pieces.
        stream.set_nodelay(true)?;
        Ok(Self { stream, deadline })
    }
}

impl Read for TimedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.deadline.remaining()?))?;
        self.stream.read(buffer)
    }
}

impl Write for TimedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.deadline.remaining()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// The request method, which determines whether the response has a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Head,
    Other,
}

pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// The first header named `name`.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(header, _)| header.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// For the report. A chunked body is already decoded.
    pub(crate) fn show(&self) -> Vec<u8> {
        let mut out = self.status.to_string();
        for (name, value) in &self.headers {
            out += &format!("\n{name}: {value}");
        }
        out += "\n\n";
        [out.as_bytes(), &self.body].concat()
    }
}

fn read_response(reader: &mut impl BufRead, method: Method) -> Result<Response, Error> {
    if reader.fill_buf().map_err(Error::Receive)?.is_empty() {
        return Err(Error::Closed);
    }
    let status = status(&line(reader)?)?;
    let headers = headers(reader)?;
    let mut response = Response { status, headers, body: Vec::new() };
    if method == Method::Other && !matches!(status, 100..200 | 204 | 304) {
        response.body = body(reader, &response)?;
    }
    Ok(response)
}

pub(crate) fn status(line: &str) -> Result<u16, Error> {
    let digits = line.strip_prefix("HTTP/1.1 ").and_then(|line| line.split(' ').next());
    match digits {
        Some(digits) if digits.len() == 3 => digits.parse().map_err(|_| malformed("status line", line)),
        _ => Err(malformed("status line", line)),
    }
}

fn headers(reader: &mut impl BufRead) -> Result<Vec<(String, String)>, Error> {
    let mut headers = Vec::new();
    loop {
        let line = line(reader)?;
        if line.is_empty() {
            return Ok(headers);
        }
        match line.split_once(':') {
            Some((name, value)) if is_token(name) && headers.len() < MAX_HEADERS => {
                headers.push((name.to_owned(), value.trim().to_owned()));
            }
            _ => return Err(malformed("header", &line)),
        }
    }
}

/// RFC 9110 section 5.6.2.
fn is_token(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

fn body(reader: &mut impl BufRead, response: &Response) -> Result<Vec<u8>, Error> {
    let mut framing = Framing::Close;
    for (name, value) in &response.headers {
        framing.apply(name, value)?;
    }
    let mut body = Vec::new();
    pieces(reader, framing, |piece| {
        body.extend_from_slice(piece);
        if body.len() > MAX_BODY_BYTES {
            return Err(malformed("body", "larger than this client accepts"));
        }
        Ok(())
    })?;
    Ok(body)
}

/// How the length of a body is determined (RFC 9112 section 6.3). Unlike in the RFC, a second length is an
/// error.
#[derive(Clone, Copy)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
    Close,
}

impl Framing {
    /// Applies one header.
    pub(crate) fn apply(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        let found = if is("content-length") {
            Self::Length(number(value, 10)?)
        } else if is("transfer-encoding") && value.eq_ignore_ascii_case("chunked") {
            Self::Chunked
        } else if is("transfer-encoding") {
            return Err(malformed("framing", value));
        } else {
            return Ok(());
        };
        match std::mem::replace(self, found) {
            Self::Close => Ok(()),
            _ => Err(malformed("framing", "two lengths")),
        }
    }
}

type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), Error>;

/// Passes a body to `sink` as it arrives, without its framing and without copying.
pub(crate) fn pieces(
    reader: &mut impl BufRead,
    framing: Framing,
    mut sink: impl FnMut(&[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    match framing {
        Framing::Length(length) => exactly(reader, length, &mut sink),
        Framing::Chunked => chunks(reader, &mut sink),
        // The body ends with the connection, so no byte is missing.
        Framing::Close => at_most(reader, u64::MAX, &mut sink).map(|_missing| ()),
    }
}

fn chunks(reader: &mut impl BufRead, sink: Sink) -> Result<(), Error> {
    loop {
        let size_line = line(reader)?;
        let (size, _extension) = size_line.split_once(';').unwrap_or((&size_line, ""));
        let size = number(size, 16)?;
        if size == 0 {
            return headers(reader).map(|_trailers| ());
        }
        exactly(reader, size, sink)?;
        let end = line(reader)?;
        if !end.is_empty() {
            return Err(malformed("end of chunk", &end));
        }
    }
}

fn exactly(reader: &mut impl BufRead, length: u64, sink: Sink) -> Result<(), Error> {
    match at_most(reader, length, sink)? {
        0 => Ok(()),
        missing => Err(Error::Truncated { missing }),
    }
}

/// Returns how many bytes were missing when the connection was closed.
fn at_most(reader: &mut impl BufRead, length: u64, sink: Sink) -> Result<u64, Error> {
    let mut missing = length;
    while missing > 0 {
        let bytes = match reader.fill_buf() {
            Ok([]) => break,
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Error::Receive(error)),
        };
        let max = usize::try_from(missing).unwrap_or(usize::MAX);
        let (piece, _next) = bytes.split_at_checked(max).unwrap_or((bytes, &[]));
        sink(piece)?;
        let piece_bytes = piece.len();
        reader.consume(piece_bytes);
        missing -= piece_bytes as u64;
    }
    Ok(missing)
}

/// Digits only: Rust's own parsers accept a plus sign.
fn number(text: &str, radix: u32) -> Result<u64, Error> {
    match u64::from_str_radix(text, radix) {
        Ok(number) if text.chars().all(|char| char.is_digit(radix)) => Ok(number),
        _ => Err(malformed("length", text)),
    }
}

fn line(reader: &mut impl BufRead) -> Result<String, Error> {
    let mut bytes = Vec::new();
    line_into(reader, &mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// One line without its CRLF. A bare LF is an error: this parser must be as strict as the server is required
/// to be.
pub(crate) fn line_into(reader: &mut impl BufRead, line: &mut Vec<u8>) -> Result<(), Error> {
    line.clear();
    reader.take(MAX_LINE_BYTES).read_until(b'\n', line).map_err(Error::Receive)?;
    let length = line.len().saturating_sub(2);
    if !line.ends_with(b"\r\n") || line.iter().take(length).any(|byte| *byte == b'\r') {
        return Err(malformed("line", &String::from_utf8_lossy(line)));
    }
    line.truncate(length);
    Ok(())
}

pub(crate) fn malformed(part: &str, bytes: &str) -> Error {
    Error::Malformed(format!("{part} {}", escaped(bytes.as_bytes())))
}

#[derive(Debug)]
pub(crate) enum Error {
    Resolve(io::Error),
    Connect(io::Error),
    Send(io::Error),
    Receive(io::Error),
    Closed,
    Truncated { missing: u64 },
    Malformed(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resolve(error) => write!(f, "cannot resolve the name: {}", reason(error)),
            Self::Connect(error) => write!(f, "{}", reason(error)),
            Self::Send(error) => write!(f, "cannot send the request: {}", reason(error)),
            Self::Receive(error) => write!(f, "no response: {}", reason(error)),
            Self::Closed => write!(f, "the server closed the connection without a response"),
            Self::Truncated { missing } => write!(f, "the body is {missing} bytes too short"),
            Self::Malformed(part) => write!(f, "invalid HTTP/1.1 response: {part}"),
        }
    }
}

/// The system reports a read timeout as "resource temporarily unavailable".
fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "timed out".to_owned(),
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns one byte per read, like a slow network.
    struct Trickle<'a>(&'a [u8]);

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let max = buffer.len().min(1);
            self.0.read(&mut buffer[..max])
        }
    }

    fn read(bytes: &[u8]) -> Result<Response, Error> {
        let whole = read_response(&mut BufReader::new(bytes), Method::Other);
        let trickled = read_response(&mut BufReader::with_capacity(1, Trickle(bytes)), Method::Other);
        assert_eq!(whole.is_ok(), trickled.is_ok());
        if let (Ok(whole), Ok(trickled)) = (&whole, &trickled) {
            assert_eq!((whole.status, &whole.headers), (trickled.status, &trickled.headers));
            assert_eq!(whole.body, trickled.body);
        }
        whole
    }

    #[track_caller]
    fn check_body(framing: &str, body: &str, expected: &str) {
        let response = format!("HTTP/1.1 200 OK\r\n{framing}\r\n{body}");
        let response = read(response.as_bytes()).unwrap();
        assert_eq!(String::from_utf8_lossy(&response.body), expected);
    }

    #[track_caller]
    fn refuses(response: &str) {
        assert!(read(response.as_bytes()).is_err(), "{response:?} was accepted");
    }

    #[test]
    fn body_has_the_length_of_its_framing() {
        check_body("Content-Length: 3\r\n", "abcdef", "abc");
        check_body("content-length:0\r\n", "abc", "");
        check_body("", "until the end", "until the end");
        check_body(
            "Transfer-Encoding: chunked\r\n",
            "3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\nabc",
            "abc0123456789",
        );
        check_body("Transfer-Encoding: Chunked\r\n", "0\r\nTrailer: x\r\n\r\n", "");
    }

    #[test]
    fn malformed_chunks_are_refused() {
        for chunks in
            ["+3\r\nabc\r\n0\r\n\r\n", "3\nabc\r\n0\r\n\r\n", "3\r\nabcd\r\n0\r\n\r\n", "\r\n0\r\n\r\n"]
        {
            refuses(&format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"));
        }
        for chunks in
            ["3\r\nab", "3\r\nabc\r\n", "3\r\nabc\r\n0\r\n", "3 \r\nabc\r\n0\r\n\r\n", "ffffffffffffffff\r\n"]
        {
            refuses(&format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"));
        }
    }

    #[test]
    fn malformed_heads_are_refused() {
        refuses("");
        refuses("HTTP/1.0 200 OK\r\n\r\n");
        refuses("HTTP/1.1 20 OK\r\n\r\n");
        refuses("HTTP/1.1 200 OK\n\n");
        refuses("HTTP/1.1 200 OK\r\nA : b\r\n\r\n");
        refuses("HTTP/1.1 200 OK\r\nA: b\r\n");
        refuses("HTTP/1.1 200 OK\r\nA: b\rC: d\r\n\r\n");
        refuses("HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\nabc");
        refuses("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc");
        refuses("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    }

    #[test]
    fn response_to_head_has_no_body() {
        let mut bytes = BufReader::new(&b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nHTTP"[..]);
        assert_eq!(read_response(&mut bytes, Method::Head).unwrap().body, b"");
        assert_eq!(bytes.buffer(), b"HTTP");
    }

    #[test]
    fn header_lookup_ignores_case() {
        let response = read(b"HTTP/1.1 200 OK\r\nETag:  \"x\" \r\nContent-Length: 0\r\n\r\n").unwrap();
        assert_eq!(response.header("etag"), Some("\"x\""));
        assert_eq!(response.header("age"), None);
    }

    #[test]
    fn silent_server_times_out() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let deadline = Deadline::after(Duration::from_millis(50));
        let server = Server::resolve("127.0.0.1", port, deadline).unwrap();
        let mut connection = server.connect(deadline).unwrap();
        let error = connection.response(Method::Other).err().unwrap();
        assert_eq!(error.to_string(), "no response: timed out");
    }
}
