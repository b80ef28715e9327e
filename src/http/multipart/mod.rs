//! A `multipart/form-data` body: a stream of bytes in, parts and their data out (RFC 2046 section 5.1, RFC
//! 7578).
//!
//! It works at any split of the input, in time linear in the body, and buffers at most one delimiter line and
//! one part's head. Data is a slice of the input wherever possible. A line that begins like a delimiter and
//! goes on otherwise is data. Only the three sequences with which clients escape a quote or a line end in a
//! name are decoded: no Content-Transfer-Encoding, and `filename*` is not a file name (RFC 7578 section 4.2).

mod boundary;
mod part;

pub use boundary::{Boundary, boundary};
pub use part::PartHead;

use crate::http::{Error, Limits};
use boundary::{Delimiter, Match};

/// The result of a step: `Part`, any number of `Data`, `PartEnd`, the next `Part`, ..., `End`.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// All input is consumed: call again with more, or call [`Parser::finish`].
    NeedMore,
    Part(PartHead),
    /// Never empty. May be only a few bytes long, however large the input is.
    Data(&'a [u8]),
    PartEnd,
    /// The closing delimiter has been read. The epilogue that may follow is skipped, with this event again.
    End,
}

/// The parser of one body.
#[derive(Debug)]
pub struct Parser {
    state: State,
    delimiter: Delimiter,
    /// The beginning of a possible delimiter line. It is kept until the next one begins, so that the
    /// caller can look at it if it turns out to be data.
    held: Vec<u8>,
    /// The head of the part that begins, with the CRLF of the delimiter line before it.
    head: Vec<u8>,
    head_limit: usize,
    parts_left: usize,
}

/// The element that the next byte belongs to.
#[derive(Clone, Copy, Debug)]
enum State {
    /// No byte has arrived.
    Start,
    Preamble,
    Data,
    /// A possible delimiter line.
    Delimiter(Within),
    Head,
    Epilogue,
}

/// The section around a possible delimiter line. It continues if the line is not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Within {
    Preamble,
    Part,
}

/// Whether a byte was used up, or is to be looked at again in another state.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Consumed {
    Yes,
    No,
}

/// An event of the parser, before the held bytes are borrowed for it.
enum Found<'a> {
    Event(Event<'a>),
    /// The held bytes are data.
    HeldData,
}

impl Parser {
    pub fn new(boundary: Boundary, limits: &Limits) -> Self {
        Self {
            state: State::Start,
            delimiter: Delimiter::new(&boundary),
            held: Vec::new(),
            head: Vec::new(),
            head_limit: limits.part_head_bytes,
            parts_left: limits.parts,
        }
    }

    /// Reads from the front of `input` up to the next event. Returns how many bytes were consumed, and the
    /// event. Step until that is `NeedMore` or `End`.
    ///
    /// # Errors
    /// The form is malformed, or larger than its limits.
    pub fn step<'a>(&'a mut self, input: &'a [u8]) -> Result<(usize, Event<'a>), Error> {
        let mut rest = input;
        loop {
            let (after, found) = self.advance(rest)?;
            rest = after;
            let consumed = input.len() - rest.len();
            match found {
                None => {}
                Some(Found::Event(event)) => return Ok((consumed, event)),
                Some(Found::HeldData) => return Ok((consumed, Event::Data(&self.held))),
            }
        }
    }

    /// The body has ended. A body without a single byte is a form without parts (UP-19).
    ///
    /// # Errors
    /// It ended before its closing delimiter.
    pub fn finish(&self) -> Result<(), Error> {
        match self.state {
            State::Start | State::Epilogue => Ok(()),
            _ => Err(Error::Malformed("the form ends before its closing boundary")),
        }
    }

    /// One transition; returns the input that is left.
    fn advance<'a>(&mut self, input: &'a [u8]) -> Result<(&'a [u8], Option<Found<'a>>), Error> {
        match (self.state, input) {
            (State::Epilogue, _) => Ok((b"", Some(Found::Event(Event::End)))),
            (_, []) => Ok((input, Some(Found::Event(Event::NeedMore)))),
            (State::Start, _) => {
                // The first delimiter may stand at the very beginning, without a line end before it.
                self.hold(Within::Preamble, b"\r\n");
                Ok((input, None))
            }
            (State::Preamble, _) => Ok(self.text(Within::Preamble, input)),
            (State::Data, _) => Ok(self.text(Within::Part, input)),
            (State::Delimiter(within), [byte, after @ ..]) => {
                let (consumed, found) = self.delimiter_byte(within, *byte)?;
                Ok((if consumed == Consumed::Yes { after } else { input }, found))
            }
            (State::Head, [byte, after @ ..]) => {
                let head = self.head_byte(*byte)?;
                Ok((after, head.map(|head| Found::Event(Event::Part(head)))))
            }
        }
    }

    /// Preamble or data, up to where a delimiter may begin.
    fn text<'a>(&mut self, within: Within, input: &'a [u8]) -> (&'a [u8], Option<Found<'a>>) {
        let (text, from) = self.delimiter.split(input);
        if text.is_empty() {
            self.hold(within, b"");
        }
        let is_data = within == Within::Part && !text.is_empty();
        (from, is_data.then_some(Found::Event(Event::Data(text))))
    }

    fn hold(&mut self, within: Within, beginning: &[u8]) {
        self.held.clear();
        self.held.extend_from_slice(beginning);
        self.state = State::Delimiter(within);
    }

    fn delimiter_byte<'a>(
        &mut self,
        within: Within,
        byte: u8,
    ) -> Result<(Consumed, Option<Found<'a>>), Error> {
        let end = match within {
            Within::Preamble => None,
            Within::Part => Some(Found::Event(Event::PartEnd)),
        };
        match self.delimiter.extend(&self.held, byte)? {
            Match::Undecided => {
                self.held.push(byte);
                return Ok((Consumed::Yes, None));
            }
            Match::No if within == Within::Preamble => {
                self.state = State::Preamble;
                return Ok((Consumed::No, None));
            }
            Match::No => {
                self.state = State::Data;
                return Ok((Consumed::No, Some(Found::HeldData)));
            }
            Match::Part => self.begin_head()?,
            Match::Close => self.state = State::Epilogue,
        }
        Ok((Consumed::Yes, end))
    }

    fn begin_head(&mut self) -> Result<(), Error> {
        self.parts_left =
            self.parts_left.checked_sub(1).ok_or(Error::Malformed("the form has too many parts"))?;
        // The line end of the delimiter line, so that a head without headers ends like any other.
        self.head.clear();
        self.head.extend_from_slice(b"\r\n");
        self.state = State::Head;
        Ok(())
    }

    fn head_byte(&mut self, byte: u8) -> Result<Option<PartHead>, Error> {
        if self.head.len() == self.head_limit {
            return Err(Error::Malformed("the head of a part is too large"));
        }
        self.head.push(byte);
        if !self.head.ends_with(b"\r\n\r\n") {
            return Ok(None);
        }
        self.state = State::Data;
        part::parse(&self.head).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (name, filename, data) of each part, with `-` for a missing name.
    type Form = Vec<(String, String, String)>;

    fn shown(name: Option<&Vec<u8>>) -> String {
        name.map_or("-".to_owned(), |name| name.escape_ascii().to_string())
    }

    fn limits() -> Limits {
        Limits { part_head_bytes: 2048, parts: 3, ..Limits::default() }
    }

    fn named(text: &str) -> Boundary {
        boundary(format!("multipart/form-data; boundary=\"{text}\"").as_bytes()).unwrap()
    }

    /// Feeds `pieces` and checks the order of the events.
    fn run(boundary: &str, pieces: &[&[u8]]) -> Result<Form, Error> {
        let mut parser = Parser::new(named(boundary), &limits());
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
    fn parts_and_their_data_are_found() {
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
    fn a_form_without_its_closing_boundary_is_refused() {
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
    fn names_are_decoded_as_clients_encode_them() {
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
        // UP-02: a name is not a path
        check_names(r#"; name=file; filename="..%2fevil""#, "file", "..%2fevil");
        check_names(r#"; name=file; filename="../evil""#, "file", "../evil");
        check_names(r#"; name=file; filename="..\evil""#, "file", r"..\\evil");
        check_names("; name=file; filename=\"\u{5206}\"", "file", r"\xe5\x88\x86");
    }

    #[test]
    fn an_extended_file_name_is_ignored() {
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
    fn a_part_with_a_malformed_head_is_refused() {
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
    fn data_is_returned_in_large_slices() {
        // UP-11, UP-15: nothing is copied.
        let mut parser = Parser::new(named("BB"), &limits());
        let head = format!("--BB\r\n{FILE}");
        let (used, event) = parser.step(head.as_bytes()).unwrap();
        assert!(used == head.len() && matches!(event, Event::Part(_)));
        let block = b"\r\n--BA\r\r\n-x".repeat(10_000);
        assert!(parser.step(&block) == Ok((block.len(), Event::Data(&block))));
    }

    #[test]
    fn a_long_boundary_of_unusual_characters_works() {
        // UP-22
        let text = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUV'()+_,-./:=?";
        assert_eq!(text.len(), 70);
        let body = format!("--{text}\r\n{FILE}x\r\n--{text}--");
        assert_eq!(outcome_with(text, body.as_bytes()).unwrap().len(), 1);
    }
}
