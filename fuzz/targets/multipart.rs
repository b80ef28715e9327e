//! Forms. Every way of cutting a form gives the same parts and the same end, its events in their order; a boundary, a name
//! and content of any kind that are written as clients write them come back as they were.

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

    // As what a body is made of: a boundary, a file name and content.
    let mut fields = input.splitn(3, |byte| *byte == 0);
    if let (Some(text), Some(name), Some(content)) = (fields.next(), fields.next(), fields.next()) {
        comes_back(text, name, content);
    }
});

fn comes_back(text: &[u8], name: &[u8], content: &[u8]) {
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

/// The parts as far as they came, the last one perhaps unfinished.
fn run(pieces: &[&[u8]], boundary: &Boundary) -> (Form, Result<(), Error>) {
    let limits = Limits { part_head_bytes: 300, parts: 3, ..Limits::default() };
    let mut parser = Parser::new(boundary.clone(), &limits);
    let (mut form, mut is_open, mut is_over) = (Form::new(), false, false);
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() {
            let (used, event) = match parser.step(rest) {
                Ok(step) => step,
                Err(error) => return (form, Err(error)),
            };
            rest = &rest[used..];
            assert!(!is_over || event == Event::End);
            match event {
                Event::NeedMore => assert!(rest.is_empty()),
                Event::End => {
                    assert!(rest.is_empty() && !is_open);
                    is_over = true;
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
