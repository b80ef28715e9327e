//! A well-formed request, encoded as bytes. Malformed requests are written by hand where they are needed.

use crate::json;

pub(crate) const BOUNDARY: &str = "----tester-boundary-7f3a";

pub(crate) struct Request {
    method: &'static str,
    target: String,
    headers: Vec<(&'static str, String)>,
    body: Option<Vec<u8>>,
}

impl Request {
    pub(crate) fn new(method: &'static str, target: &str) -> Self {
        Request { method, target: target.to_owned(), headers: Vec::new(), body: None }
    }

    pub(crate) fn command(command: &str) -> Self {
        Request::json(&format!("{{\"command\":{}}}", json::string(command)))
    }

    pub(crate) fn json(body: &str) -> Self {
        Request::new("POST", "/execute").header("Content-Type", "application/json").body(body.as_bytes())
    }

    pub(crate) fn upload(name: &str, content: &[u8]) -> Self {
        Request::multipart(&file_disposition(name), content)
    }

    /// An upload with one part, which may be any part.
    pub(crate) fn multipart(disposition: &str, content: &[u8]) -> Self {
        let [head, end] = delimiters(disposition);
        Request::form(&[head.as_bytes(), content, end.as_bytes()].concat())
    }

    pub(crate) fn form(body: &[u8]) -> Self {
        Request::empty_form().body(body)
    }

    /// For a file that is generated while it is sent: the bytes before and after its `length` bytes.
    pub(crate) fn large_upload(name: &str, length: u64, host: &str) -> [Vec<u8>; 2] {
        let [part, end] = delimiters(&file_disposition(name));
        let length = length + part.len() as u64 + end.len() as u64;
        let head = Request::empty_form().header("Content-Length", &length.to_string()).encode(host);
        [[head, part.into_bytes()].concat(), end.into_bytes()]
    }

    fn empty_form() -> Self {
        let content_type = format!("multipart/form-data; boundary={BOUNDARY}");
        Request::new("POST", "/upload").header("Content-Type", &content_type)
    }

    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(crate) fn body(mut self, body: &[u8]) -> Self {
        self.body = Some(body.to_owned());
        self
    }

    pub(crate) fn encode(&self, host: &str) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\nHost: {host}\r\n", self.method, self.target);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        if let Some(body) = &self.body {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        head += "\r\n";
        [head.as_bytes(), self.body.as_deref().unwrap_or_default()].concat()
    }
}

/// The Content-Disposition of a file part.
fn file_disposition(name: &str) -> String {
    format!("form-data; name=\"file\"; filename=\"{}\"", quoted(name))
}

/// The bytes before and after the content of the only part of a form.
fn delimiters(disposition: &str) -> [String; 2] {
    let head = format!("--{BOUNDARY}\r\nContent-Disposition: {disposition}\r\n\r\n");
    [head, format!("\r\n--{BOUNDARY}--\r\n")]
}

/// A file name for a quoted string in a header.
fn quoted(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"")
}

/// A path for a request target: everything but slashes and unreserved characters (RFC 3986 section 2.3) is
/// encoded.
pub(crate) fn encoded(path: &str) -> String {
    let mut out = String::new();
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(char::from(byte))
            }
            _ => out += &format!("%{byte:02X}"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_length_is_sent_with_a_body() {
        let get = Request::new("GET", "/").header("A", "b").encode("h:1");
        assert_eq!(get, b"GET / HTTP/1.1\r\nHost: h:1\r\nA: b\r\n\r\n");
        let post = Request::new("POST", "/x").body(b"").encode("h");
        assert_eq!(post, b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
    }

    #[test]
    fn large_upload_is_an_upload_in_pieces() {
        let [before, after] = Request::large_upload("a\"b", 3, "h:1");
        let whole = Request::upload("a\"b", b"xyz").encode("h:1");
        assert_eq!([&before, &b"xyz"[..], &after].concat(), whole);
    }

    #[test]
    fn path_is_encoded_for_a_target() {
        assert_eq!(encoded("a b/é%\"~"), "a%20b/%C3%A9%25%22~");
    }

    #[test]
    fn name_is_quoted_for_a_header() {
        assert_eq!(quoted(r#"a"b\c"#), r#"a\"b\\c"#);
    }
}
