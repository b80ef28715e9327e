//! A `multipart/form-data` body: a stream of bytes in, parts and their data out (RFC 2046 section 5.1, RFC
//! 7578).
//!
//! Works at any split, in time linear in the body, and holds back at most one delimiter line and one part's
//! head. Data comes out as slices of the input wherever possible. A line that only looks like a delimiter,
//! because it goes on after the boundary, is data. Nothing is decoded but the three sequences that clients
//! use to write a quote or a line end in a name; in particular no Content-Transfer-Encoding, and `filename*`
//! is no file name (RFC 7578 section 4.2).

use super::{Error, Limits, is_token_byte, is_value_byte, params};

/// One to seventy printable ASCII characters, the last of them no space (RFC 2046 section 5.1.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boundary(Vec<u8>);

/// The boundary that a Content-Type names.
pub fn boundary(content_type: &[u8]) -> Result<Boundary, Error> {
    const LONGEST: usize = 70;
    if !params::essence(content_type).eq_ignore_ascii_case(b"multipart/form-data") {
        return Err(Error::NotMultipart);
    }
    let mut boundary = None;
    for param in params::parse(content_type)? {
        if param.name == b"boundary" && boundary.replace(param.content).is_some() {
            return Err(Error::Malformed("the content type names two multipart boundaries"));
        }
    }
    let boundary = boundary.filter(|boundary| !boundary.is_empty()).ok_or(Error::NoBoundary)?;
    let printable = boundary.iter().all(|b| *b == b' ' || b.is_ascii_graphic());
    if boundary.len() > LONGEST || boundary.ends_with(b" ") || !printable {
        return Err(Error::Malformed("the multipart boundary is not a valid one"));
    }
    Ok(Boundary(boundary))
}

/// What a part's Content-Disposition says about it. Names are bytes, not always UTF-8.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartHead {
    pub name: Option<Vec<u8>>,
    pub filename: Option<Vec<u8>>,
}

/// What a step found. `Part`, any number of `Data`, `PartEnd`, the next `Part`, ..., `End`.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// All input is consumed: come back with more, or call [`Parser::finish`].
    NeedMore,
    Part(PartHead),
    /// Never empty. May be only a few bytes long, whatever the size of the input.
    Data(&'a [u8]),
    PartEnd,
    /// The closing delimiter has been read. The epilogue that may follow is skipped, with this event again.
    End,
}

/// The state of one body.
#[derive(Debug)]
pub struct Parser {
    /// `CRLF--boundary`. Its only CR is its first byte, so that a failed match never hides the start of
    /// another.
    delimiter: Vec<u8>,
    place: Place,
    /// In a part's body, as opposed to the preamble.
    in_part: bool,
    /// Whether there has been any input.
    started: bool,
    /// The beginning of what may be a delimiter line.
    held: Vec<u8>,
    /// What was held and turned out to be data. It lives here while the caller looks at it.
    released: Vec<u8>,
    /// The head of the part that begins, with the CRLF of the delimiter line before it.
    head: Vec<u8>,
    head_limit: usize,
    parts_left: usize,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    /// In data or preamble, nothing held.
    Text,
    /// In what may be a delimiter line.
    Delimiter,
    Head,
    Epilogue,
}

/// What one more byte makes of the held bytes.
enum Match {
    Undecided,
    /// They were no delimiter; the byte does not belong to them.
    No,
    /// A delimiter line, and what follows it.
    Yes(Place),
}

impl Parser {
    pub fn new(boundary: Boundary, limits: &Limits) -> Parser {
        Parser {
            delimiter: [b"\r\n--", &boundary.0[..]].concat(),
            // The first delimiter may stand at the very beginning, without a line end before it.
            place: Place::Delimiter,
            held: b"\r\n".to_vec(),
            in_part: false,
            started: false,
            released: Vec::new(),
            head: Vec::new(),
            head_limit: limits.part_head_bytes,
            parts_left: limits.parts,
        }
    }

    /// Reads from the front of `input` up to the next event. Returns how many bytes are done with, and the
    /// event. Step until that is `NeedMore` or `End`.
    pub fn step<'a>(&'a mut self, input: &'a [u8]) -> Result<(usize, Event<'a>), Error> {
        self.started |= !input.is_empty();
        let mut rest = input;
        loop {
            match (self.place, rest) {
                (Place::Epilogue, _) => return Ok((input.len(), Event::End)),
                (_, []) => return Ok((input.len(), Event::NeedMore)),
                (Place::Text, _) => {
                    let (text, from) = self.split_at_delimiter(rest);
                    rest = from;
                    if text.is_empty() {
                        self.place = Place::Delimiter;
                    } else if self.in_part {
                        return Ok((input.len() - rest.len(), Event::Data(text)));
                    }
                }
                (Place::Delimiter, [byte, after @ ..]) => match self.hold(*byte)? {
                    Match::Undecided => rest = after,
                    Match::No => {
                        self.place = Place::Text;
                        self.released.clear();
                        self.released.append(&mut self.held);
                        if self.in_part {
                            return Ok((input.len() - rest.len(), Event::Data(&self.released)));
                        }
                    }
                    Match::Yes(place) => {
                        rest = after;
                        self.place = place;
                        self.held.clear();
                        if std::mem::take(&mut self.in_part) {
                            return Ok((input.len() - rest.len(), Event::PartEnd));
                        }
                    }
                },
                (Place::Head, [byte, after @ ..]) => {
                    rest = after;
                    if let Some(head) = self.extend_head(*byte)? {
                        self.place = Place::Text;
                        self.in_part = true;
                        return Ok((input.len() - rest.len(), Event::Part(head)));
                    }
                }
            }
        }
    }

    /// The body has ended. An error if it did so before its closing delimiter. A body without a single byte
    /// is a form without parts (UP-19).
    pub fn finish(&self) -> Result<(), Error> {
        match self.place {
            Place::Epilogue => Ok(()),
            _ if !self.started => Ok(()),
            _ => Err(Error::Malformed("the form ends before its closing boundary")),
        }
    }

    /// Splits at the first place where a delimiter begins or, at the end of `text`, may begin.
    fn split_at_delimiter<'a>(&self, text: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        let mut searched = 0;
        while let Some(found) = text.get(searched..).and_then(find_line_end) {
            let (before, from) = text.split_at_checked(searched + found).unwrap_or((text, b""));
            if from.iter().zip(&self.delimiter).all(|(byte, expected)| byte == expected) {
                return (before, from);
            }
            searched += found + 1;
        }
        (text, b"")
    }

    /// Adds a byte to the held ones as long as they may become a delimiter line.
    fn hold(&mut self, byte: u8) -> Result<Match, Error> {
        let found = match self.delimiter.get(self.held.len()) {
            Some(expected) if *expected == byte => Match::Undecided,
            Some(_) => Match::No,
            None => self.after_boundary(byte)?,
        };
        if matches!(found, Match::Undecided) {
            self.held.push(byte);
        }
        Ok(found)
    }

    /// A boundary makes a delimiter line when `--` follows, or white space (RFC 2046 calls it padding) and
    /// CRLF.
    fn after_boundary(&mut self, byte: u8) -> Result<Match, Error> {
        const PADDING_BYTES: usize = 256;
        let tail = self.held.get(self.delimiter.len()..).unwrap_or_default();
        match (tail, byte) {
            ([b'-'], b'-') => Ok(Match::Yes(Place::Epilogue)),
            ([.., b'\r'], b'\n') => self.next_part(),
            ([b'-'] | [.., b'\r'], _) => Ok(Match::No),
            ([], b'-') => Ok(Match::Undecided),
            (_, b' ' | b'\t' | b'\r') if tail.len() < PADDING_BYTES => Ok(Match::Undecided),
            (_, b' ' | b'\t' | b'\r') => Err(Error::Malformed("a multipart boundary has too much padding")),
            _ => Ok(Match::No),
        }
    }

    fn next_part(&mut self) -> Result<Match, Error> {
        self.parts_left =
            self.parts_left.checked_sub(1).ok_or(Error::Malformed("the form has too many parts"))?;
        // The line end of the delimiter line, so that a head without headers ends like any other.
        self.head.clear();
        self.head.extend_from_slice(b"\r\n");
        Ok(Match::Yes(Place::Head))
    }

    fn extend_head(&mut self, byte: u8) -> Result<Option<PartHead>, Error> {
        if self.head.len() == self.head_limit {
            return Err(Error::Malformed("the head of a part is too large"));
        }
        self.head.push(byte);
        if self.head.ends_with(b"\r\n\r\n") { part_head(&self.head).map(Some) } else { Ok(None) }
    }
}

/// Where the first CRLF begins, or may begin at the end. Many bytes are looked at in one step: it is most of what reading an
/// upload costs.
fn find_line_end(text: &[u8]) -> Option<usize> {
    let is_line_end = |byte: &u8, next: &u8| (*byte == b'\r') & (*next == b'\n');
    let (blocks, _) = text.as_chunks::<32>();
    let (shifted, _) = text.get(1..)?.as_chunks::<32>();
    let has_none = |(block, shifted): &(&[u8; 32], &[u8; 32])| {
        !block.iter().zip(*shifted).fold(false, |found, (byte, next)| found | is_line_end(byte, next))
    };
    let without = blocks.iter().zip(shifted).take_while(has_none).count() * 32;
    let rest = text.get(without..)?;
    let nexts = rest.iter().skip(1).chain(b"\n");
    let found = rest.iter().zip(nexts).position(|(byte, next)| is_line_end(byte, next))?;
    Some(without + found)
}

/// Reads the header lines of a part. All but Content-Disposition are checked and dropped.
fn part_head(head: &[u8]) -> Result<PartHead, Error> {
    let mut disposition = None;
    for line in head.split_inclusive(|b| *b == b'\n') {
        let line =
            line.strip_suffix(b"\r\n").ok_or(Error::Malformed("a part's header ends in a bare line feed"))?;
        if line.is_empty() {
            continue;
        }
        let (name, value) = header(line)?;
        if name.eq_ignore_ascii_case(b"content-disposition") && disposition.replace(value).is_some() {
            return Err(Error::Malformed("a part has two Content-Disposition headers"));
        }
    }
    disposition.map_or(Ok(PartHead::default()), names)
}

fn header(line: &[u8]) -> Result<(&[u8], &[u8]), Error> {
    let mut halves = line.splitn(2, |b| *b == b':');
    let (Some(name), Some(value)) = (halves.next(), halves.next()) else {
        return Err(Error::Malformed("a part's header has no colon"));
    };
    if name.is_empty() || !name.iter().all(|b| is_token_byte(*b)) {
        return Err(Error::Malformed("a part's header has no valid name"));
    }
    if !value.iter().all(|b| is_value_byte(*b)) {
        return Err(Error::Malformed("a part's header has a control byte in it"));
    }
    Ok((name, value))
}

/// The two names in a Content-Disposition.
fn names(disposition: &[u8]) -> Result<PartHead, Error> {
    if !params::essence(disposition).eq_ignore_ascii_case(b"form-data") {
        return Err(Error::Malformed("a part is not form data"));
    }
    let mut head = PartHead::default();
    for param in params::parse(disposition)? {
        let slot = match param.name.as_slice() {
            b"name" => &mut head.name,
            b"filename" => &mut head.filename,
            _ => continue,
        };
        if slot.replace(unescaped(&param.content)).is_some() {
            return Err(Error::Malformed("a part has two names of one kind"));
        }
    }
    Ok(head)
}

/// Undoes what the HTML standard has clients do to a quote, CR and LF in a name. They escape nothing else,
/// not even `%` itself, so no other sequence is touched.
fn unescaped(mut rest: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(rest.len());
    loop {
        let (byte, after) = match rest {
            [b'%', b'2', b'2', after @ ..] => (b'"', after),
            [b'%', b'0', b'D' | b'd', after @ ..] => (b'\r', after),
            [b'%', b'0', b'A' | b'a', after @ ..] => (b'\n', after),
            [byte, after @ ..] => (*byte, after),
            [] => return name,
        };
        name.push(byte);
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (name, filename, data) of each part, with `-` for a name that is not there.
    type Form = Vec<(String, String, String)>;

    fn shown(name: Option<&Vec<u8>>) -> String {
        name.map_or("-".to_owned(), |name| name.escape_ascii().to_string())
    }

    fn limits() -> Limits {
        Limits { part_head_bytes: 2048, parts: 3, ..Limits::default() }
    }

    /// Feeds `pieces` and checks on the way that events come in their order.
    fn run(boundary: &str, pieces: &[&[u8]]) -> Result<Form, Error> {
        let mut parser = Parser::new(Boundary(boundary.into()), &limits());
        let (mut form, mut data, mut open) = (Form::new(), Vec::new(), false);
        for piece in pieces {
            let mut rest = *piece;
            loop {
                let (used, event) = parser.step(rest)?;
                rest = &rest[used..];
                match event {
                    Event::NeedMore | Event::End => {
                        assert!(rest.is_empty());
                        break;
                    }
                    Event::Part(head) => {
                        assert!(!open);
                        open = true;
                        form.push((shown(head.name.as_ref()), shown(head.filename.as_ref()), String::new()));
                    }
                    Event::Data(more) => {
                        assert!(open && !more.is_empty());
                        data.extend_from_slice(more);
                    }
                    Event::PartEnd => {
                        assert!(open);
                        open = false;
                        form.last_mut().unwrap().2 = std::mem::take(&mut data).escape_ascii().to_string();
                    }
                }
            }
        }
        parser.finish()?;
        Ok(form)
    }

    /// Whole, byte by byte, and at every split in two.
    #[track_caller]
    fn outcome_with(boundary: &str, body: &[u8]) -> Result<Form, Error> {
        let whole = run(boundary, &[body]);
        let bytes: Vec<_> = body.chunks(1).collect();
        assert_eq!(run(boundary, &bytes), whole, "byte by byte: {}", body.escape_ascii());
        for at in 0..=body.len() {
            let (front, back) = body.split_at(at);
            assert_eq!(run(boundary, &[front, back]), whole, "split at {at}: {}", body.escape_ascii());
        }
        whole
    }

    #[track_caller]
    fn check(body: &str, expected: &[(&str, &str, &str)]) {
        let owned = |text: &str| text.to_owned();
        let expected: Form = expected.iter().map(|(n, f, d)| (owned(n), owned(f), owned(d))).collect();
        assert_eq!(outcome_with("BB", body.as_bytes()), Ok(expected), "{body:?}");
    }

    #[track_caller]
    fn check_refused(body: &str) {
        let outcome = outcome_with("BB", body.as_bytes());
        assert!(matches!(outcome, Err(Error::Malformed(_))), "{body:?}: {outcome:?}");
    }

    const FILE: &str = "Content-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n";

    /// A form with one file of this content.
    fn file(content: &str) -> String {
        format!("--BB\r\n{FILE}{content}\r\n--BB--\r\n")
    }

    #[track_caller]
    fn check_content(content: &str) {
        check(&file(content), &[("file", "f", &content.as_bytes().escape_ascii().to_string())]);
    }

    /// The names in a Content-Disposition with these parameters.
    #[track_caller]
    fn check_names(params: &str, name: &str, filename: &str) {
        let body = format!("--BB\r\nContent-Disposition: form-data{params}\r\n\r\nx\r\n--BB--");
        check(&body, &[(name, filename, "x")]);
    }

    #[test]
    fn parts_and_their_data_come_out() {
        // UP-21
        check(&file("hello"), &[("file", "f", "hello")]);
        check(&file(""), &[("file", "f", "")]);
        check(
            "--BB\r\nContent-Disposition: form-data; name=meta\r\n\r\nm\r\n--BB\r\n\
             Content-Disposition: form-data; name=file; filename=x\r\n\r\ny\r\n--BB--\r\n",
            &[("meta", "-", "m"), ("file", "x", "y")],
        );
        check("--BB--", &[]);
        check("--BB--\r\n", &[]);
        check("", &[]);
    }

    #[test]
    fn preamble_and_epilogue_are_skipped() {
        // UP-14
        for before in [
            "\r\n",
            "preamble\r\n",
            "\r\n\r\n",
            "--B\r\n",
            "--BBx\r\n",
            "x--BB\r\n\r\n",
            "\r\r\n",
            "\r\n--BB-\r\n",
        ] {
            check(&format!("{before}{}", file("x")), &[("file", "f", "x")]);
        }
        for after in ["", "\r\n", "epilogue", "\r\n--BB\r\n", "\r\n--BB--", "-"] {
            check(&format!("--BB\r\n{FILE}x\r\n--BB--{after}"), &[("file", "f", "x")]);
        }
    }

    #[test]
    fn text_that_looks_like_a_boundary_is_data() {
        // UP-10
        check_content("x--BBy\r\n--B\r\n-BB");
        check_content("x\r\n--BBx\r\ny");
        for content in [
            "--BB\r\n",
            "--BB--",
            "\r\n--BBB",
            "\r\n--BB-",
            "\r\n--BB-x",
            "\r\n--BB -",
            "\r\n--BB --",
            "\r\n--BB\rx",
            "\r\n--BB\n",
            "\r\n--BB \t\r\r\n",
            "\n--BB\r\n",
            "\r--BB\r\n",
            "\r\n-BB\r\n",
            "\r\n--bb\r\n",
            "\r\n--BB\r",
            "\r\n --BB\r\n",
            "\r",
            "\r\n",
            "\r\r\n\r\r\n",
            "\r\n-",
            "\r\n--",
            "\r\n--B",
            "\r\n--BB x\r\n",
            "-",
        ] {
            check_content(content);
        }
    }

    #[test]
    fn white_space_after_a_boundary_is_padding() {
        check(
            &format!("--BB \t\r\n{FILE}x\r\n--BB   \r\n{FILE}y\r\n--BB-- \r\n"),
            &[("file", "f", "x"), ("file", "f", "y")],
        );
        check_refused(&format!("--BB\r\n{FILE}x\r\n--BB{}\r\n", " ".repeat(300)));
    }

    #[test]
    fn a_form_that_ends_before_its_closing_boundary_is_refused() {
        // UP-20
        let whole = file("hello");
        for end in 1..whole.len() - 2 {
            check_refused(&whole[..end]);
        }
        check_refused("no boundary at all");
        check_refused("\r\n");
    }

    #[test]
    fn a_part_may_have_other_headers_or_none() {
        // UP-22
        check("--BB\r\n\r\nx\r\n--BB--", &[("-", "-", "x")]);
        check(
            "--BB\r\ncontent-type: text/plain\r\ncontent-disposition:form-data;name=file;filename=x\r\n\
             Content-Transfer-Encoding: base64\r\nEmpty:\r\n\r\neA==\r\n--BB--",
            &[("file", "x", "eA==")],
        );
    }

    #[test]
    fn names_are_read_as_clients_write_them() {
        check_names("; name=\"file\"; filename=\"a b.txt\"", "file", "a b.txt");
        check_names("; filename=x ;name=file", "file", "x");
        check_names("; NAME=file; FileName=X", "file", "X");
        check_names(";name=file;filename=\"\"", "file", "");
        check_names("", "-", "-");
        check_names("; name=\"file\"; filename=\"a;b=c\"", "file", "a;b=c");
        // Backslashes and percent signs
        check_names(r#"; name=file; filename="back\slash.txt""#, "file", r"back\\slash.txt");
        check_names(r#"; name=file; filename="q\"q""#, "file", "q\\\"q");
        check_names(r#"; name=file; filename="q%22q""#, "file", "q\\\"q");
        check_names(r#"; name=file; filename="%0d%0A%0D%0a""#, "file", r"\r\n\r\n");
        check_names(r#"; name=file; filename="a%b.txt""#, "file", "a%b.txt");
        check_names(r#"; name=file; filename="p%41.txt""#, "file", "p%41.txt");
        check_names(r#"; name=file; filename="%%22%2522%2""#, "file", "%\\\"%2522%2");
        // UP-02: a name is not an address
        check_names(r#"; name=file; filename="..%2fevil""#, "file", "..%2fevil");
        check_names(r#"; name=file; filename="../evil""#, "file", "../evil");
        check_names(r#"; name=file; filename="..\evil""#, "file", r"..\\evil");
        check_names("; name=file; filename=\"\u{5206}\"", "file", r"\xe5\x88\x86");
    }

    #[test]
    fn an_extended_file_name_is_no_file_name() {
        // UP-06
        check_names("; name=file; filename=\"ascii.txt\"; filename*=UTF-8''..%2Fevil", "file", "ascii.txt");
        check_names("; name=file; filename*=UTF-8''x", "file", "-");
    }

    #[test]
    fn names_that_are_not_utf_8_stay_bytes() {
        let body =
            b"--BB\r\nContent-Disposition: form-data; name=file; filename=\"caf\xe9\"\r\n\r\nx\r\n--BB--";
        let expected = ("file".to_owned(), r"caf\xe9".to_owned(), "x".to_owned());
        assert_eq!(outcome_with("BB", body), Ok(vec![expected]));
    }

    #[test]
    fn a_part_with_a_broken_head_is_refused() {
        for head in [
            "garbage",
            ": v",
            "A : v",
            "A: b\r\n c",
            "A: b\nC: d",
            "A: b\0",
            "A: b\rc",
            "Content-Disposition: attachment; filename=x",
            "Content-Disposition: form-data name=file",
            "Content-Disposition: form-data; name=\"file",
            "Content-Disposition: form-data; name",
            "Content-Disposition: form-data; name=file; filename=a; filename=b",
            "Content-Disposition: form-data; name=file; name=b",
            "Content-Disposition: form-data\r\nContent-Disposition: form-data; name=file",
            "--BB--",
        ] {
            check_refused(&format!("--BB\r\n{head}\r\n\r\nx\r\n--BB--\r\n"));
        }
    }

    #[test]
    fn part_heads_and_their_number_are_bounded() {
        // UP-12
        let long = "n".repeat(1024);
        check_names(&format!("; name=file; filename=\"{long}\""), "file", &long);
        check_refused(&format!("--BB\r\nX: {}\r\n\r\nx\r\n--BB--", "v".repeat(2048)));
        check_refused(&format!("--BB\r\n{}\r\nx\r\n--BB--", "X: y\r\n".repeat(400)));
        let part = format!("--BB\r\n{FILE}\r\n");
        check(&(part.repeat(3) + "--BB--"), &[("file", "f", ""); 3]);
        check_refused(&(part.repeat(4) + "--BB--"));
    }

    #[test]
    fn data_comes_out_in_large_slices() {
        // UP-11, UP-15: nothing is copied.
        let mut parser = Parser::new(Boundary(b"BB".to_vec()), &limits());
        let head = format!("--BB\r\n{FILE}");
        let (used, event) = parser.step(head.as_bytes()).unwrap();
        assert!(used == head.len() && matches!(event, Event::Part(_)));
        let block = b"\r\n--BA\r\r\n-x".repeat(10_000);
        assert!(parser.step(&block) == Ok((block.len(), Event::Data(&block))));
    }

    #[test]
    fn a_long_boundary_of_odd_characters_works() {
        // UP-22
        let text = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUV'()+_,-./:=?";
        assert_eq!(text.len(), 70);
        for content_type in [
            format!("multipart/form-data; boundary={text}"),
            format!("multipart/form-data; boundary=\"{text}\""),
        ] {
            assert_eq!(boundary(content_type.as_bytes()), Ok(Boundary(text.into())));
        }
        let body = format!("--{text}\r\n{FILE}x\r\n--{text}--");
        assert_eq!(outcome_with(text, body.as_bytes()).unwrap().len(), 1);
    }

    #[test]
    fn the_boundary_is_found_in_the_content_type() {
        // UP-22
        for content_type in [
            "multipart/form-data; boundary=BB",
            "multipart/form-data;boundary=\"BB\"",
            "multipart/form-data; charset=utf-8; boundary=BB",
            "multipart/form-data ; boundary=BB ; charset=utf-8",
            "MULTIPART/FORM-DATA; BOUNDARY=BB",
        ] {
            assert_eq!(boundary(content_type.as_bytes()), Ok(Boundary(b"BB".to_vec())), "{content_type}");
        }
        let spaced = boundary(b"multipart/form-data; boundary=\"a b\"");
        assert_eq!(spaced, Ok(Boundary(b"a b".to_vec())));
    }

    #[test]
    fn a_content_type_without_a_usable_boundary_is_refused() {
        // UP-19
        for content_type in [
            "multipart/form-data",
            "multipart/form-data; charset=utf-8",
            "multipart/form-data; boundary=\"\"",
        ] {
            assert_eq!(boundary(content_type.as_bytes()), Err(Error::NoBoundary), "{content_type}");
        }
        for content_type in
            ["", "application/json", "multipart/mixed; boundary=BB", "multipart/form-data boundary=BB"]
        {
            assert_eq!(boundary(content_type.as_bytes()), Err(Error::NotMultipart), "{content_type}");
        }
        let long = format!("boundary={}", "a".repeat(71));
        for params in [
            &long,
            "boundary=A; boundary=A",
            "boundary=\"A ",
            "boundary=\"A \"",
            "boundary=\u{e9}",
            "boundary",
        ] {
            let outcome = boundary(format!("multipart/form-data; {params}").as_bytes());
            assert!(matches!(outcome, Err(Error::Malformed(_))), "{params}: {outcome:?}");
        }
    }
}
