//! A command with a large output.

use std::time::Instant;

use super::client::{BenchClient, no_response};
use super::floor::BareCommand;
use super::round::Round;
use super::samples::{Delivered, Sample};
use super::target::Target;
use crate::request::Request;
use crate::response::{Stop, fail};

/// The size of one read(2).
pub(super) const BUFFER_BYTES: usize = 256 << 10;

const OUTPUT_BYTES: u64 = 100 << 20;

/// A command with [`OUTPUT_BYTES`] of output: every `of_bytes` of it become `json_bytes` of JSON.
pub(super) struct Output {
    /// For `sh -c`.
    script: &'static str,
    programs: &'static [&'static str],
    json_bytes: u64,
    of_bytes: u64,
}

/// Lines of 64 bytes, in which only the line feed must be escaped.
pub(super) const TEXT: Output = Output {
    script: "yes 123456789012345678901234567890123456789012345678901234567890123 | head -c 104857600",
    programs: &["sh", "yes", "head"],
    json_bytes: 65,
    of_bytes: 64,
};

/// Six characters per byte: the largest JSON for an output of this size.
pub(super) const NUL: Output =
    Output { script: "head -c 104857600 /dev/zero", programs: &["sh", "head"], json_bytes: 6, of_bytes: 1 };

const BEGIN: &str = r#"{"stdout":""#;
const END: &str = r#"","stderr":"","exit_code":0}"#;
const END_TRUNCATED: &str = r#"","stderr":"","exit_code":0,"truncated":true}"#;

/// Reads the output through the server. The floor is the same pipeline with its output discarded.
pub(super) fn stream(target: &Target, round: Round, output: &Output) -> Result<Sample, Stop> {
    target.session.needs(output.programs)?;
    let command = format!("sh -c '{}'", output.script);
    let request = Request::command(&command).encode(&target.session.server.name);
    let mut floor = BareCommand::program("sh", &["-c", &format!("{} | cat", output.script)])?;
    let server = || {
        target.with_peak(|| {
            let mut client = target.client(BUFFER_BYTES)?;
            let started = Instant::now();
            let body = read_body(&mut client, &request)?;
            Ok((started.elapsed(), body.delivered(output, &request)?))
        })
    };
    let (((elapsed, delivered), peak_bytes), floor) = round.both(server, || floor.run_discarding_output())?;
    let note = match delivered {
        Delivered::All(_) => None,
        Delivered::Truncated(bytes) => Some(format!("truncated to {:.1} MiB", bytes as f64 / 1048576.0)),
    };
    Ok(Sample { delivered: Some(delivered), note, peak_bytes, ..Sample::of_times(elapsed, floor) })
}

/// One exchange with status 200 whose body is not stored.
pub(super) fn read_body(client: &mut BenchClient, request: &[u8]) -> Result<Body, Stop> {
    client.restart_deadline();
    let mut body = Body::default();
    let head = client.send(request).and_then(|()| {
        let head = client.head()?;
        client.pieces(&head, |piece| body.add(piece))?;
        Ok(head)
    });
    match head.map_err(|error| no_response(request, &error))?.status {
        200 => Ok(body),
        status => Err(fail(request, "status 200", &[format!("{status} ").as_bytes(), &body.first].concat())),
    }
}

/// The length of a body, with its first and last bytes.
#[derive(Default)]
pub(super) struct Body {
    /// Without the white space that may precede JSON (RFC 8259 section 2).
    pub(super) bytes: u64,
    first: Vec<u8>,
    last: Vec<u8>,
}

impl Body {
    const KEPT_BYTES: usize = 256;

    fn add(&mut self, piece: &[u8]) {
        let piece = if self.bytes == 0 { piece.trim_ascii_start() } else { piece };
        self.bytes += piece.len() as u64;
        let (first, _) = piece.split_at(piece.len().min(Self::KEPT_BYTES - self.first.len()));
        self.first.extend_from_slice(first);
        let (_, last) = piece.split_at(piece.len().saturating_sub(Self::KEPT_BYTES));
        self.last.drain(..(self.last.len() + last.len()).saturating_sub(Self::KEPT_BYTES));
        self.last.extend_from_slice(last);
    }

    /// The delivered part of the output, computed from the length of its JSON.
    fn delivered(&self, output: &Output, request: &[u8]) -> Result<Delivered, Stop> {
        let framing = BEGIN.len() + if self.is_truncated() { END_TRUNCATED.len() } else { END.len() };
        let json = self.bytes.saturating_sub(framing as u64);
        let is_begun = self.first.starts_with(BEGIN.as_bytes());
        if is_begun && self.is_truncated() {
            return Ok(Delivered::Truncated(json * output.of_bytes / output.json_bytes));
        }
        let expected = OUTPUT_BYTES / output.of_bytes * output.json_bytes;
        if is_begun && json == expected && self.last.ends_with(END.as_bytes()) {
            return Ok(Delivered::All(OUTPUT_BYTES));
        }
        let received = [&self.first, &b" ... "[..], &self.last].concat();
        let expected = format!(
            "{BEGIN}, {expected} bytes, and {END} or {END_TRUNCATED}; {} bytes arrived in all",
            self.bytes
        );
        Err(fail(request, &expected, &received))
    }

    fn is_truncated(&self) -> bool {
        self.last.ends_with(END_TRUNCATED.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], piece_bytes: usize) -> Body {
        let mut body = Body::default();
        bytes.chunks(piece_bytes).for_each(|piece| body.add(piece));
        body
    }

    #[track_caller]
    fn check(body: &str, expected: Option<Delivered>) {
        for piece_bytes in [1, 7, body.len()] {
            assert_eq!(read(body.as_bytes(), piece_bytes).delivered(&NUL, b"").ok(), expected);
        }
    }

    #[test]
    fn body_is_complete_truncated_or_wrong() {
        let body = |begin: &str, nuls: usize, end: &str| format!("{begin}{}{end}", r"\u0000".repeat(nuls));
        check(&body(BEGIN, 1000, END_TRUNCATED), Some(Delivered::Truncated(1000)));
        check(&body(&format!("  {BEGIN}"), 1000, END_TRUNCATED), Some(Delivered::Truncated(1000)));
        check(&body(BEGIN, 1000, END), None);
        check(&body(BEGIN, 1000, r#"","stderr":"","exit_code":1}"#), None);
        check(&body("", 1000, END_TRUNCATED), None);
        check("{}", None);
    }

    #[test]
    fn complete_output_has_the_expected_length() {
        for (output, bytes) in [(&NUL, 629_145_600), (&TEXT, 106_496_000)] {
            let complete = Body {
                bytes: (BEGIN.len() + END.len()) as u64 + bytes,
                first: BEGIN.into(),
                last: END.into(),
            };
            assert_eq!(complete.delivered(output, b"").ok(), Some(Delivered::All(OUTPUT_BYTES)));
        }
    }

    #[test]
    fn first_and_last_bytes_are_kept() {
        let bytes: Vec<u8> = (0..5000_u32).flat_map(u32::to_be_bytes).collect();
        for piece_bytes in [1, 3, 255, 256, 257, 4096, bytes.len()] {
            let body = read(&bytes, piece_bytes);
            assert_eq!((body.bytes, body.first.as_slice()), (20_000, &bytes[..256]));
            assert_eq!(body.last, bytes[bytes.len() - 256..]);
        }
    }
}
