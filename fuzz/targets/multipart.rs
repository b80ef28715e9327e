//! Forms. Every split of a form gives the same parts and the same end, with the events in order. A boundary,
//! a name and content of any kind, encoded as clients encode them, decode to themselves.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbox_runtime::http::multipart::{Boundary, Event, Parser, PartHead, boundary};
use sandbox_runtime::http::{Error, Limits};
use sandbox_runtime_fuzz::{find, in_pieces};

type Form = Vec<(PartHead, Vec<u8>)>;

fuzz_target!(|input: &[u8]| {
    // As a Content-Type.
    let _ = boundary(input);
    let _ = boundary(&[b"multipart/form-data;", input].concat());

    // As a body.
    let fixed = boundary(b"multipart/form-data; boundary=BB").unwrap();
    let whole = run(&[input], &fixed);
    in_pieces(input, |pieces| assert_eq!(run(pieces, &fixed), whole, "{} pieces", pieces.len()));

    // As the contents of a body: a boundary, a file name and data.
    let mut fields = input.splitn(3, |byte| *byte == 0);
    if let (Some(text), Some(name), Some(content)) = (fields.next(), fields.next(), fields.next()) {
        check_round_trip(text, name, content);
    }
});

fn check_round_trip(text: &[u8], name: &[u8], content: &[u8]) {
    let quoted = |text: &[u8]| {
        text.iter()
            .flat_map(|byte| match byte {
                b'"' => b"\\\"".to_vec(),
                b'\\' => b"\\\\".to_vec(),
                byte => vec![*byte],
            })
            .collect::<Vec<u8>>()
    };
    let content_type = [b"multipart/form-data; charset=x; boundary=\"", &quoted(text)[..], b"\""].concat();
    let printable = text.iter().all(|byte| (b' '..=b'~').contains(byte));
    let is_valid = printable && (1..=70).contains(&text.len()) && !text.ends_with(b" ");
    let Ok(boundary) = boundary(&content_type) else {
        assert!(!is_valid, "a valid boundary is refused");
        return;
    };
    assert!(is_valid, "an invalid boundary is accepted");

    let delimiter = [b"\r\n--", text].concat();
    let is_plain = |byte: &u8| matches!(byte, b'\r' | b'\n') || !byte.is_ascii_control();
    let has_escape = |name: &[u8]| {
        ["%22", "%0d", "%0D", "%0a", "%0A"].iter().any(|escape| find(name, escape.as_bytes()).is_some())
    };
    if find(&[b"\r\n", content].concat(), &delimiter).is_some()
        || has_escape(name)
        || !name.iter().all(is_plain)
    {
        return;
    }
    let written: Vec<u8> = quoted(name)
        .iter()
        .flat_map(|byte| match byte {
            b'\r' => b"%0D".to_vec(),
            b'\n' => b"%0A".to_vec(),
            byte => vec![*byte],
        })
        .collect();
    let body = [
        b"preamble",
        &delimiter[..],
        b"\r\nContent-Disposition: form-data; name=\"file\"; filename=\"",
        &written,
        b"\"\r\nContent-Type: a/b\r\n\r\n",
        content,
        &delimiter,
        b" \r\n\r\n",
        content,
        &delimiter,
        b"--\r\nepilogue",
        &delimiter,
    ]
    .concat();
    let head = PartHead { name: Some(b"file".to_vec()), filename: Some(name.to_vec()) };
    let form = vec![(head, content.to_vec()), (PartHead::default(), content.to_vec())];
    let outcome = run(&[&body], &boundary);
    if written.len() < 150 {
        assert_eq!(outcome, (form, Ok(())));
    }
    in_pieces(&body, |pieces| assert_eq!(run(pieces, &boundary), outcome, "{} pieces", pieces.len()));
}

/// The parts before the end or the first error; the last one may be incomplete.
fn run(pieces: &[&[u8]], boundary: &Boundary) -> (Form, Result<(), Error>) {
    let limits = Limits { part_head_bytes: 300, parts: 3, ..Limits::default() };
    let mut parser = Parser::new(boundary.clone(), &limits);
    let (mut form, mut is_open, mut has_ended) = (Form::new(), false, false);
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() {
            let (consumed, event) = match parser.step(rest) {
                Ok(step) => step,
                Err(error) => return (form, Err(error)),
            };
            rest = &rest[consumed..];
            assert!(!has_ended || event == Event::End);
            match event {
                Event::NeedMore => assert!(rest.is_empty()),
                Event::End => {
                    assert!(rest.is_empty() && !is_open);
                    has_ended = true;
                }
                Event::Part(head) => {
                    assert!(!std::mem::replace(&mut is_open, true));
                    form.push((head, Vec::new()));
                }
                Event::Data(data) => {
                    assert!(is_open && !data.is_empty());
                    form.last_mut().unwrap().1.extend_from_slice(data);
                }
                Event::PartEnd => assert!(std::mem::replace(&mut is_open, false)),
            }
        }
    }
    assert!(form.len() <= limits.parts);
    (form, parser.finish())
}
