//! Large outputs and large files, handed on by the server and thrown away here.

use std::time::{Duration, Instant};

use super::client::{Client, SMALL_BUFFER_BYTES, broken};
use super::floor::Bare;
use super::process;
use super::samples::{Delivered, Sample};
use super::{Bench, Round};
use crate::answer::{Stop, fail};
use crate::request::{Request, encoded};

/// Of one read(2).
const BUFFER_BYTES: usize = 256 * 1024;
const BLOCK_BYTES: usize = 1024 * 1024;

const OUTPUT_BYTES: u64 = 100 * 1024 * 1024;
const FILE_BLOCKS: u64 = 256;
const FILE_BYTES: u64 = FILE_BLOCKS * BLOCK_BYTES as u64;

/// Below the session's directory.
const FILE: &str = "large";
const COPY: &str = "copy";

/// A command with [`OUTPUT_BYTES`] of output, and how many bytes of JSON its output becomes.
pub(super) struct Output {
    /// For a shell.
    script: &'static str,
    programs: &'static [&'static str],
    json_bytes: u64,
    of_bytes: u64,
}

/// Lines of 64 bytes, of which only the end has to be escaped.
pub(super) const TEXT: Output = Output {
    script: "yes 123456789012345678901234567890123456789012345678901234567890123 | head -c 104857600",
    programs: &["sh", "yes", "head"],
    json_bytes: 65,
    of_bytes: 64,
};

/// Six characters for each byte: the largest JSON that an output can become.
pub(super) const NUL: Output =
    Output { script: "head -c 104857600 /dev/zero", programs: &["sh", "head"], json_bytes: 6, of_bytes: 1 };

const BEGIN: &str = r#"{"stdout":""#;
const END: &str = r#"","stderr":"","exit_code":0}"#;
const END_TRUNCATED: &str = r#"","stderr":"","exit_code":0,"truncated":true}"#;

pub(super) fn output(bench: &Bench, round: Round, output: &Output) -> Result<Sample, Stop> {
    bench.session.needs(output.programs)?;
    let request = Request::command(&format!("sh -c '{}'", output.script)).encode(&bench.session.server.name);
    let mut floor = Bare::program("sh", &["-c", &format!("{} | cat", output.script)])?;
    let server = || {
        bench.with_peak(|| {
            let mut client = bench.client(BUFFER_BYTES)?;
            let begun = Instant::now();
            let ends = stream(&mut client, &request)?;
            Ok((begun.elapsed(), ends.delivered(output, &request)?))
        })
    };
    let (((took, delivered), peak_bytes), floor) = round.both(server, || floor.run_unheard())?;
    let note = match delivered {
        Delivered::All(_) => None,
        Delivered::Truncated(bytes) => Some(format!("truncated to {:.1} MiB", bytes as f64 / 1048576.0)),
    };
    Ok(Sample { delivered: Some(delivered), note, peak_bytes, ..seconds(took, floor) })
}

/// One exchange whose body is only looked at; its status is 200.
fn stream(client: &mut Client, request: &[u8]) -> Result<Ends, Stop> {
    client.begin();
    let mut ends = Ends::default();
    let head = client.send(request).and_then(|()| {
        let head = client.head()?;
        client.pieces(&head, |piece| ends.add(piece))?;
        Ok(head)
    });
    match head.map_err(|error| broken(request, &error))?.status {
        200 => Ok(ends),
        status => Err(fail(request, "status 200", &[format!("{status} ").as_bytes(), &ends.first].concat())),
    }
}

/// How much came, and what it began and ended with.
#[derive(Default)]
struct Ends {
    /// Without the white space that may stand before JSON (RFC 8259 section 2).
    bytes: u64,
    first: Vec<u8>,
    last: Vec<u8>,
}

impl Ends {
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

    /// How much of the output is in there, known from the length of its JSON.
    fn delivered(&self, output: &Output, request: &[u8]) -> Result<Delivered, Stop> {
        let around = BEGIN.len() + if self.is_truncated() { END_TRUNCATED.len() } else { END.len() };
        let json = self.bytes.saturating_sub(around as u64);
        let begun = self.first.starts_with(BEGIN.as_bytes());
        if begun && self.is_truncated() {
            return Ok(Delivered::Truncated(json * output.of_bytes / output.json_bytes));
        }
        let expected = OUTPUT_BYTES / output.of_bytes * output.json_bytes;
        if begun && json == expected && self.last.ends_with(END.as_bytes()) {
            return Ok(Delivered::All(OUTPUT_BYTES));
        }
        let received = [&self.first, &b" ... "[..], &self.last].concat();
        let expected = format!(
            "{BEGIN}, {expected} bytes, and {END} or {END_TRUNCATED}; {} bytes in all came",
            self.bytes
        );
        Err(fail(request, &expected, &received))
    }

    fn is_truncated(&self) -> bool {
        self.last.ends_with(END_TRUNCATED.as_bytes())
    }
}

/// A file that was not there before, against a copy that was not there before.
pub(super) fn upload(bench: &Bench, round: Round) -> Result<Sample, Stop> {
    let (file, _) = names(bench)?;
    // The copy that is made first, in every other round, needs something to be made of.
    if round.is_floor_first() && !bench.session.exists(&file)? {
        send_file(bench, &file)?;
    }
    let server = || {
        remove(bench, &file)?;
        bench.with_peak(|| send_file(bench, &file))
    };
    let ((took, peak_bytes), floor) = round.both(server, || copy_there(bench))?;
    Ok(Sample { peak_bytes, ..seconds(took, floor) })
}

pub(super) fn download(bench: &Bench, round: Round) -> Result<Sample, Stop> {
    let (file, _) = names(bench)?;
    if !bench.session.exists(&file)? {
        send_file(bench, &file)?;
    }
    let request =
        Request::new("GET", &format!("/download/{}", encoded(&file))).encode(&bench.session.server.name);
    let server = || {
        bench.with_peak(|| {
            let mut client = bench.client(BUFFER_BYTES)?;
            let begun = Instant::now();
            let ends = stream(&mut client, &request)?;
            match ends.bytes {
                FILE_BYTES => Ok(begun.elapsed()),
                other => Err(fail(&request, &format!("{FILE_BYTES} bytes"), other.to_string().as_bytes())),
            }
        })
    };
    let ((took, peak_bytes), floor) = round.both(server, || copy_there(bench))?;
    Ok(Sample { peak_bytes, ..seconds(took, floor) })
}

fn names(bench: &Bench) -> Result<(String, String), Stop> {
    bench.session.needs(&["cp", "rm"])?;
    Ok((bench.session.path(FILE), bench.session.path(COPY)))
}

fn send_file(bench: &Bench, name: &str) -> Result<Duration, Stop> {
    let [before, after] = Request::large_upload(name, FILE_BYTES, &bench.session.server.name);
    let block = noise();
    let mut client = bench.client(SMALL_BUFFER_BYTES)?;
    client.begin();
    let begun = Instant::now();
    let mut sent = client.send(&before);
    for _ in 0..FILE_BLOCKS {
        sent = sent.and_then(|()| client.send(&block));
    }
    sent = sent.and_then(|()| client.send(&after));
    client.finish(sent, &before)?;
    Ok(begun.elapsed())
}

/// One block of bytes that look random: Marsaglia's xorshift. None is white space at the beginning of the file.
fn noise() -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut bytes = Vec::with_capacity(BLOCK_BYTES);
    while bytes.len() < BLOCK_BYTES {
        bytes.extend(state.to_le_bytes());
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    bytes
}

/// By the server, so that it is the same disk.
fn copy_there(bench: &Bench) -> Result<Duration, Stop> {
    let (file, copy) = names(bench)?;
    remove(bench, &copy)?;
    let request = Request::command(&format!("cp {file} {copy}")).encode(&bench.session.server.name);
    let mut client = bench.client(SMALL_BUFFER_BYTES)?;
    let begun = Instant::now();
    client.run(&request)?;
    let took = begun.elapsed();
    remove(bench, &copy)?;
    Ok(took)
}

fn remove(bench: &Bench, name: &str) -> Result<(), Stop> {
    bench.session.execute(&format!("rm -f {name}"))?.is("", "", 0)
}

fn seconds(server: Duration, floor: Duration) -> Sample {
    Sample { server: server.as_secs_f64(), floor: Some(floor.as_secs_f64()), ..Sample::default() }
}

impl Bench {
    /// The most memory that the server used meanwhile, too.
    fn with_peak<T>(&self, work: impl FnOnce() -> Result<T, Stop>) -> Result<(T, Option<u64>), Stop> {
        let processes = self.processes();
        let begun = process::forget_peak(&processes);
        let done = work()?;
        Ok((done, begun.and_then(|()| process::peak_bytes(&processes))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(body: &[u8], piece_bytes: usize) -> Ends {
        let mut ends = Ends::default();
        body.chunks(piece_bytes).for_each(|piece| ends.add(piece));
        ends
    }

    #[track_caller]
    fn check(body: &str, expected: Option<Delivered>) {
        for piece_bytes in [1, 7, body.len()] {
            assert_eq!(fed(body.as_bytes(), piece_bytes).delivered(&NUL, b"").ok(), expected);
        }
    }

    #[test]
    fn an_answer_is_whole_truncated_or_wrong() {
        let body = |begin: &str, nuls: usize, end: &str| format!("{begin}{}{end}", r"\u0000".repeat(nuls));
        check(&body(BEGIN, 1000, END_TRUNCATED), Some(Delivered::Truncated(1000)));
        check(&body(&format!("  {BEGIN}"), 1000, END_TRUNCATED), Some(Delivered::Truncated(1000)));
        check(&body(BEGIN, 1000, END), None);
        check(&body(BEGIN, 1000, r#"","stderr":"","exit_code":1}"#), None);
        check(&body("", 1000, END_TRUNCATED), None);
        check("{}", None);
    }

    #[test]
    fn an_output_becomes_as_many_bytes_as_is_known() {
        for (output, bytes) in [(&NUL, 629_145_600), (&TEXT, 106_496_000)] {
            let whole = Ends {
                bytes: (BEGIN.len() + END.len()) as u64 + bytes,
                first: BEGIN.into(),
                last: END.into(),
            };
            assert_eq!(whole.delivered(output, b"").ok(), Some(Delivered::All(OUTPUT_BYTES)));
        }
    }

    #[test]
    fn both_ends_are_kept_however_a_body_comes() {
        let body: Vec<u8> = (0..5000_u32).flat_map(u32::to_be_bytes).collect();
        for piece_bytes in [1, 3, 255, 256, 257, 4096, body.len()] {
            let ends = fed(&body, piece_bytes);
            assert_eq!((ends.bytes, ends.first.as_slice()), (20_000, &body[..256]));
            assert_eq!(ends.last, body[body.len() - 256..]);
        }
    }
}
