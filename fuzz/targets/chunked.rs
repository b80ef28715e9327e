//! Bodies. Every split of a body decodes to the same data and the same end. A second, naive decoder agrees
//! with every accepted body. Content that is encoded in chunks, or with a length, decodes to itself, and the
//! bytes after it are left alone.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbox_runtime::http::body::Body;
use sandbox_runtime::http::head::Framing;
use sandbox_runtime::http::{Error, Limits};
use sandbox_runtime_fuzz::{find, in_pieces};

const LIMIT: u64 = 200;

fuzz_target!(|input: &[u8]| {
    let whole = run(&[input], Framing::Chunked, LIMIT);
    in_pieces(input, |pieces| {
        assert_eq!(run(pieces, Framing::Chunked, LIMIT), whole, "{} pieces", pieces.len())
    });
    if let (data, Ok((consumed, true))) = &whole {
        assert!(data.len() as u64 <= LIMIT && *consumed <= input.len());
        assert_eq!(naive(input), Some((data.clone(), *consumed)));
    }

    let room = input.len() as u64;
    for (framing, mut wire) in [(Framing::Chunked, encoded(input)), (Framing::Length(room), input.to_vec())] {
        let length = wire.len();
        wire.extend_from_slice(b"0\r\n\r\nGET / HTTP/1.1\r\n");
        in_pieces(&wire, |pieces| {
            assert_eq!(run(pieces, framing, room), (input.to_vec(), Ok((length, true))))
        });
    }
    if room > 0 {
        let refusal = Error::BodyTooLarge { limit: room - 1 };
        assert_eq!(run(&[&encoded(input)], Framing::Chunked, room - 1).1, Err(refusal.clone()));
        assert_eq!(run(&[input], Framing::Length(room), room - 1).1, Err(refusal));
    }
});

/// The data, how many bytes were consumed, and whether the body is done.
fn run(pieces: &[&[u8]], framing: Framing, limit: u64) -> (Vec<u8>, Result<(usize, bool), Error>) {
    let limits = Limits { chunk_line_bytes: 20, trailer_bytes: 40, ..Limits::default() };
    let (mut data, mut consumed) = (Vec::new(), 0);
    let mut body = match Body::new(framing, limit, &limits) {
        Ok(body) => body,
        Err(error) => return (data, Err(error)),
    };
    for piece in pieces {
        let mut rest = *piece;
        loop {
            let decoded = match body.decode(rest) {
                Ok(decoded) => decoded,
                Err(error) => return (data, Err(error)),
            };
            data.extend_from_slice(decoded.data);
            consumed += decoded.consumed;
            rest = &rest[decoded.consumed..];
            if decoded.consumed == 0 {
                break;
            }
        }
        assert!(rest.is_empty() || body.is_done());
    }
    (data, Ok((consumed, body.is_done())))
}

/// The data, and the position of the end of the body.
fn naive(input: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut data, mut rest) = (Vec::new(), input);
    loop {
        let line = line(&mut rest)?;
        let digits = std::str::from_utf8(line.split(|byte| *byte == b';').next()?).ok()?;
        assert!(digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let size = usize::from_str_radix(digits, 16).ok()?;
        if size == 0 {
            break;
        }
        data.extend_from_slice(rest.get(..size)?);
        rest = rest[size..].strip_prefix(b"\r\n")?;
    }
    while !line(&mut rest)?.is_empty() {}
    Some((data, input.len() - rest.len()))
}

fn line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = find(rest, b"\r\n")?;
    let line = &rest[..end];
    assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
    *rest = &rest[end + 2..];
    Some(line)
}

/// In chunks whose sizes and spellings are derived from the content.
fn encoded(content: &[u8]) -> Vec<u8> {
    let (mut wire, mut rest) = (Vec::new(), content);
    while let [first, ..] = rest {
        let (chunk, after) = rest.split_at(rest.len().min(1 + usize::from(*first) % 40));
        let zeros = "0".repeat(usize::from(*first) % 3);
        let extension = if first % 2 == 0 { ";name=\"value\"" } else { "" };
        let size = if first % 5 == 0 { format!("{:X}", chunk.len()) } else { format!("{:x}", chunk.len()) };
        wire.extend_from_slice(format!("{zeros}{size}{extension}\r\n").as_bytes());
        wire.extend_from_slice(chunk);
        wire.extend_from_slice(b"\r\n");
        rest = after;
    }
    let trailers = if content.len() % 2 == 0 { "A: b\r\nC:\r\n" } else { "" };
    wire.extend_from_slice(format!("0\r\n{trailers}\r\n").as_bytes());
    wire
}
