//! Uploads and downloads of a large file. The floor is `cp`, run by the server so that it uses the same disk.

use std::time::{Duration, Instant};

use super::client::SMALL_BUFFER_BYTES;
use super::output::{BUFFER_BYTES, read_body};
use super::round::Round;
use super::samples::Sample;
use super::target::Target;
use crate::request::{Request, encoded};
use crate::response::{Stop, fail};

const BLOCK_BYTES: usize = 1 << 20;
const FILE_BLOCKS: u64 = 256;
const FILE_BYTES: u64 = FILE_BLOCKS * BLOCK_BYTES as u64;

/// Below the directory of the session.
const FILE: &str = "large";
const COPY: &str = "copy";

/// Both the upload and the copy create a new file.
pub(super) fn upload(target: &Target, round: Round) -> Result<Sample, Stop> {
    let (file, _) = names(target)?;
    // In every other round the copy comes first and needs its source.
    if round.is_floor_first() && !target.session.exists(&file)? {
        send_file(target, &file)?;
    }
    let server = || {
        remove(target, &file)?;
        target.with_peak(|| send_file(target, &file))
    };
    let ((elapsed, peak_bytes), floor) = round.both(server, || copy_file(target))?;
    Ok(Sample { peak_bytes, ..Sample::of_times(elapsed, floor) })
}

pub(super) fn download(target: &Target, round: Round) -> Result<Sample, Stop> {
    let (file, _) = names(target)?;
    if !target.session.exists(&file)? {
        send_file(target, &file)?;
    }
    let request =
        Request::new("GET", &format!("/download/{}", encoded(&file))).encode(&target.session.server.name);
    let server = || {
        target.with_peak(|| {
            let mut client = target.client(BUFFER_BYTES)?;
            let started = Instant::now();
            let body = read_body(&mut client, &request)?;
            match body.bytes {
                FILE_BYTES => Ok(started.elapsed()),
                other => Err(fail(&request, &format!("{FILE_BYTES} bytes"), other.to_string().as_bytes())),
            }
        })
    };
    let ((elapsed, peak_bytes), floor) = round.both(server, || copy_file(target))?;
    Ok(Sample { peak_bytes, ..Sample::of_times(elapsed, floor) })
}

fn names(target: &Target) -> Result<(String, String), Stop> {
    target.session.needs(&["cp", "rm"])?;
    Ok((target.session.path(FILE), target.session.path(COPY)))
}

fn send_file(target: &Target, name: &str) -> Result<Duration, Stop> {
    let [before, after] = Request::large_upload(name, FILE_BYTES, &target.session.server.name);
    let block = noise();
    let mut client = target.client(SMALL_BUFFER_BYTES)?;
    client.restart_deadline();
    let started = Instant::now();
    let mut sent = client.send(&before);
    for _ in 0..FILE_BLOCKS {
        sent = sent.and_then(|()| client.send(&block));
    }
    sent = sent.and_then(|()| client.send(&after));
    client.finish(sent, &before)?;
    Ok(started.elapsed())
}

/// One block of pseudo-random bytes (Marsaglia's xorshift). It does not begin with white space, which
/// [`read_body`] would skip.
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

fn copy_file(target: &Target) -> Result<Duration, Stop> {
    let (file, copy) = names(target)?;
    remove(target, &copy)?;
    let request = Request::command(&format!("cp {file} {copy}")).encode(&target.session.server.name);
    let mut client = target.client(SMALL_BUFFER_BYTES)?;
    let started = Instant::now();
    client.run(&request)?;
    let elapsed = started.elapsed();
    remove(target, &copy)?;
    Ok(elapsed)
}

fn remove(target: &Target, name: &str) -> Result<(), Stop> {
    target.session.execute(&format!("rm -f {name}"))?.expect_result("", "", 0)
}
