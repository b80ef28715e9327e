//! HTTP/1.1 as a client sees it (RFC 9112): bytes out as they are, answers read strictly, every wait under a
//! [`Deadline`].
//!
//! Requests are not checked here on purpose: many of them have to be wrong. No redirect is followed, nothing is
//! retried, and no connection is reused behind the caller's back.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const LONGEST_LINE_BYTES: u64 = 16 * 1024;
const MOST_HEADERS: usize = 100;
/// Of what is kept in memory.
const LARGEST_BODY_BYTES: usize = 512 * 1024 * 1024;

#[derive(Clone, Copy)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    pub(crate) fn after(wait: Duration) -> Deadline {
        Deadline(Instant::now() + wait)
    }

    /// Never zero, which a socket would take for "no limit".
    fn remaining(self) -> io::Result<Duration> {
        match self.0.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(left),
        }
    }
}

pub(crate) struct Server {
    /// As a Host header and a person write it: an IPv6 address is in brackets.
    pub(crate) name: String,
    addresses: Vec<SocketAddr>,
}

impl Server {
    pub(crate) fn look_up(host: &str, port: u16, deadline: Deadline) -> Result<Server, Error> {
        let addresses = match host.parse::<IpAddr>() {
            Ok(ip) => vec![SocketAddr::new(ip, port)],
            Err(_) => resolve(host.to_owned(), port, deadline).map_err(Error::LookUp)?,
        };
        let name = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        Ok(Server { name, addresses })
    }

    pub(crate) fn connect(&self, deadline: Deadline) -> Result<Connection, Error> {
        Ok(Connection { reader: BufReader::new(self.stream(deadline)?) })
    }

    pub(crate) fn stream(&self, deadline: Deadline) -> Result<Timed, Error> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in &self.addresses {
            let left = deadline.remaining().map_err(Error::Connect)?;
            match TcpStream::connect_timeout(address, left).and_then(|stream| Timed::over(stream, deadline)) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(Error::Connect(last))
    }

    /// Whether it is sure to run on this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        self.addresses.iter().all(|address| address.ip().is_loopback())
    }
}

/// The system's look-up has no timeout of its own; a thread that is late is left behind, and the process ends soon.
fn resolve(host: String, port: u16, deadline: Deadline) -> io::Result<Vec<SocketAddr>> {
    let (found, answer) = mpsc::channel();
    thread::spawn(move || {
        // Nobody listens any more when the look-up was late.
        let _ = found.send((host.as_str(), port).to_socket_addrs().map(Vec::from_iter));
    });
    answer.recv_timeout(deadline.remaining()?).map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

pub(crate) struct Connection {
    reader: BufReader<Timed>,
}

impl Connection {
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.reader.get_mut().write_all(bytes).map_err(Error::Send)
    }

    /// Says that no more will be sent; answers still arrive.
    pub(crate) fn finish_sending(&mut self) -> Result<(), Error> {
        self.reader.get_ref().stream.shutdown(Shutdown::Write).map_err(Error::Send)
    }

    pub(crate) fn response(&mut self, asked_with: Method) -> Result<Response, Error> {
        read_response(&mut self.reader, asked_with)
    }

    /// `Ok` when the server has closed the connection and sent nothing more.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        match self.reader.fill_buf() {
            Ok([]) => Ok(()),
            Ok(bytes) => Err(Error::Malformed(format!("more bytes: {}", crate::report::escaped(bytes)))),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(()),
            Err(error) => Err(Error::Receive(error)),
        }
    }
}

/// A stream each of whose waits ends at the deadline.
pub(crate) struct Timed {
    pub(crate) stream: TcpStream,
    pub(crate) deadline: Deadline,
}

impl Timed {
    fn over(stream: TcpStream, deadline: Deadline) -> io::Result<Timed> {
        // A request sent in pieces should arrive in these pieces.
        stream.set_nodelay(true)?;
        Ok(Timed { stream, deadline })
    }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.deadline.remaining()?))?;
        self.stream.read(buffer)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.deadline.remaining()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// What the request was decides whether its answer has a body.
#[derive(Clone, Copy, PartialEq)]
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
    /// The first header of that name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(header, _)| header.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// For a person to read: the chunks of a chunked body are already joined.
    pub(crate) fn show(&self) -> Vec<u8> {
        let mut out = self.status.to_string();
        for (name, value) in &self.headers {
            out += &format!("\n{name}: {value}");
        }
        out += "\n\n";
        [out.as_bytes(), &self.body].concat()
    }
}

fn read_response(reader: &mut impl BufRead, asked_with: Method) -> Result<Response, Error> {
    if reader.fill_buf().map_err(Error::Receive)?.is_empty() {
        return Err(Error::Closed);
    }
    let status = status(&line(reader)?)?;
    let headers = headers(reader)?;
    let mut response = Response { status, headers, body: Vec::new() };
    if asked_with == Method::Other && !matches!(status, 100..200 | 204 | 304) {
        response.body = body(reader, &response)?;
    }
    Ok(response)
}

pub(crate) fn status(line: &str) -> Result<u16, Error> {
    let digits = line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.split(' ').next());
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
            Some((name, value)) if is_token(name) && headers.len() < MOST_HEADERS => {
                headers.push((name.to_owned(), value.trim().to_owned()));
            }
            _ => return Err(malformed("header", &line)),
        }
    }
}

/// RFC 9110 section 5.6.2.
fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

fn body(reader: &mut impl BufRead, response: &Response) -> Result<Vec<u8>, Error> {
    let mut framing = Framing::Close;
    for (name, value) in &response.headers {
        framing.header(name, value)?;
    }
    let mut body = Vec::new();
    pieces(reader, framing, |piece| {
        body.extend_from_slice(piece);
        if body.len() > LARGEST_BODY_BYTES {
            return Err(malformed("length", "more than this client reads"));
        }
        Ok(())
    })?;
    Ok(body)
}

/// How the end of a body is known (RFC 9112 section 6.3), except that a server must not give two lengths.
#[derive(Clone, Copy)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
    Close,
}

impl Framing {
    /// Takes note of one header.
    pub(crate) fn header(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        let found = if is("content-length") {
            Framing::Length(number(value, 10)?)
        } else if is("transfer-encoding") && value.eq_ignore_ascii_case("chunked") {
            Framing::Chunked
        } else if is("transfer-encoding") {
            return Err(malformed("framing", value));
        } else {
            return Ok(());
        };
        match std::mem::replace(self, found) {
            Framing::Close => Ok(()),
            _ => Err(malformed("framing", "two lengths")),
        }
    }
}

type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), Error>;

/// Hands on a body as it comes, uncopied and without what frames it.
pub(crate) fn pieces(
    reader: &mut impl BufRead,
    framing: Framing,
    mut sink: impl FnMut(&[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    match framing {
        Framing::Length(length) => exactly(reader, length, &mut sink),
        Framing::Chunked => chunks(reader, &mut sink),
        // What is missing at the end is not missed.
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
        missing => Err(Error::CutShort { missing }),
    }
}

/// Gives back how many bytes were missing when the connection ended.
fn at_most(reader: &mut impl BufRead, length: u64, sink: Sink) -> Result<u64, Error> {
    let mut missing = length;
    while missing > 0 {
        let bytes = match reader.fill_buf() {
            Ok([]) => break,
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Error::Receive(error)),
        };
        let most = usize::try_from(missing).unwrap_or(usize::MAX);
        let (piece, _rest) = bytes.split_at_checked(most).unwrap_or((bytes, &[]));
        sink(piece)?;
        let taken = piece.len();
        reader.consume(taken);
        missing -= taken as u64;
    }
    Ok(missing)
}

/// Digits only: Rust's own parsers take a plus sign.
fn number(text: &str, radix: u32) -> Result<u64, Error> {
    match u64::from_str_radix(text, radix) {
        Ok(number) if text.chars().all(|c| c.is_digit(radix)) => Ok(number),
        _ => Err(malformed("length", text)),
    }
}

fn line(reader: &mut impl BufRead) -> Result<String, Error> {
    let mut bytes = Vec::new();
    line_into(reader, &mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// One line without its CRLF. A bare LF is an error: what we test must not be laxer than what it tests in us.
pub(crate) fn line_into(reader: &mut impl BufRead, line: &mut Vec<u8>) -> Result<(), Error> {
    line.clear();
    reader.take(LONGEST_LINE_BYTES).read_until(b'\n', line).map_err(Error::Receive)?;
    let length = line.len().saturating_sub(2);
    if !line.ends_with(b"\r\n") || line.iter().take(length).any(|byte| *byte == b'\r') {
        return Err(malformed("line", &String::from_utf8_lossy(line)));
    }
    line.truncate(length);
    Ok(())
}

pub(crate) fn malformed(what: &str, bytes: &str) -> Error {
    Error::Malformed(format!("{what} {}", crate::report::escaped(bytes.as_bytes())))
}

#[derive(Debug)]
pub(crate) enum Error {
    LookUp(io::Error),
    Connect(io::Error),
    Send(io::Error),
    Receive(io::Error),
    Closed,
    CutShort { missing: u64 },
    Malformed(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::LookUp(error) => write!(f, "looking up the name: {}", reason(error)),
            Error::Connect(error) => write!(f, "{}", reason(error)),
            Error::Send(error) => write!(f, "sending the request: {}", reason(error)),
            Error::Receive(error) => write!(f, "waiting for the answer: {}", reason(error)),
            Error::Closed => write!(f, "the server closed the connection without an answer"),
            Error::CutShort { missing } => write!(f, "the body ended {missing} bytes early"),
            Error::Malformed(what) => write!(f, "not an HTTP/1.1 answer: {what}"),
        }
    }
}

/// A socket's read timeout comes out as "resource temporarily unavailable", which helps nobody.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "nothing in time".to_owned(),
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte a read, as a slow network would.
    struct Trickle<'a>(&'a [u8]);

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let most = buffer.len().min(1);
            self.0.read(&mut buffer[..most])
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
    fn has_body(framing: &str, rest: &str, expected: &str) {
        let answer = format!("HTTP/1.1 200 OK\r\n{framing}\r\n{rest}");
        let response = read(answer.as_bytes()).unwrap();
        assert_eq!(String::from_utf8_lossy(&response.body), expected);
    }

    #[track_caller]
    fn refuses(answer: &str) {
        assert!(read(answer.as_bytes()).is_err(), "{answer:?} was accepted");
    }

    #[test]
    fn a_body_is_as_long_as_its_framing_says() {
        has_body("Content-Length: 3\r\n", "abcdef", "abc");
        has_body("content-length:0\r\n", "abc", "");
        has_body("", "until the end", "until the end");
        has_body(
            "Transfer-Encoding: chunked\r\n",
            "3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\nabc",
            "abc0123456789",
        );
        has_body("Transfer-Encoding: Chunked\r\n", "0\r\nTrailer: x\r\n\r\n", "");
    }

    #[test]
    fn chunks_that_are_not_framed_exactly_are_refused() {
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
    fn heads_that_are_not_http_are_refused() {
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
    fn an_answer_to_head_has_no_body() {
        let mut bytes = BufReader::new(&b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nHTTP"[..]);
        assert_eq!(read_response(&mut bytes, Method::Head).unwrap().body, b"");
        assert_eq!(bytes.buffer(), b"HTTP");
    }

    #[test]
    fn headers_are_found_in_any_case() {
        let response = read(b"HTTP/1.1 200 OK\r\nETag:  \"x\" \r\nContent-Length: 0\r\n\r\n").unwrap();
        assert_eq!(response.header("etag"), Some("\"x\""));
        assert_eq!(response.header("age"), None);
    }

    #[test]
    fn a_server_that_says_nothing_is_left_at_the_deadline() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let deadline = Deadline::after(Duration::from_millis(50));
        let server = Server::look_up("127.0.0.1", port, deadline).unwrap();
        let mut connection = server.connect(deadline).unwrap();
        let error = connection.response(Method::Other).err().unwrap();
        assert_eq!(error.to_string(), "waiting for the answer: nothing in time");
    }
}
