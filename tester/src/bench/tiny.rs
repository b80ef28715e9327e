//! A minimal program that only exits with 0: running it costs no more than a process does.
//!
//! It is an ELF header, one program header and three instructions, see elf(5).

use std::env::{self, consts::ARCH};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::process;

use crate::response::Stop;

const HEADER_BYTES: u16 = 64;
const PROGRAM_HEADER_BYTES: u16 = 56;
const LOAD_ADDRESS: u64 = 0x40_0000;

const EXECUTABLE: u16 = 2;
const LOAD: u32 = 1;
const READ_AND_EXECUTE: u32 = 4 + 1;

const X86_64: u16 = 62;
const AARCH64: u16 = 183;

/// `xor edi, edi; mov eax, 60; syscall`: exit(0).
const X86_64_CODE: &[u8] = &[0x31, 0xff, 0xb8, 60, 0, 0, 0, 0x0f, 0x05];

/// `mov x0, 0; mov x8, 93; svc 0`: exit(0).
const AARCH64_CODE: &[u8] = &[0x00, 0x00, 0x80, 0xd2, 0xa8, 0x0b, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4];

/// The program for this architecture.
pub(super) fn program() -> Result<Vec<u8>, Stop> {
    match ARCH {
        "x86_64" => Ok(image(X86_64, X86_64_CODE)),
        "aarch64" => Ok(image(AARCH64, AARCH64_CODE)),
        _ => Err(Stop::Skip(format!("no tiny program for {ARCH}"))),
    }
}

/// The program in a directory of its own, which is removed on drop.
pub(super) struct TinyProgram {
    directory: PathBuf,
}

impl TinyProgram {
    pub(super) fn write(content: &[u8]) -> Result<Self, Stop> {
        let directory = env::temp_dir().join(format!("tester-bench-{}", process::id()));
        let skip = |error| Stop::Skip(format!("local {}: {error}", directory.display()));
        DirBuilder::new().mode(0o700).create(&directory).map_err(skip)?;
        // From here on the directory is removed, even after an error.
        let tiny = Self { directory: directory.clone() };
        // The file is closed before it is run: exec fails for a program that is open for writing.
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o755)
            .open(tiny.path())
            .and_then(|mut file| file.write_all(content))
            .map_err(skip)?;
        Ok(tiny)
    }

    pub(super) fn path(&self) -> PathBuf {
        self.directory.join("tiny")
    }
}

impl Drop for TinyProgram {
    fn drop(&mut self) {
        // Drop cannot report an error, and the directory is a temporary one.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn image(machine: u16, code: &[u8]) -> Vec<u8> {
    let start = u64::from(HEADER_BYTES) + u64::from(PROGRAM_HEADER_BYTES);
    let length = start + code.len() as u64;
    let mut elf = Vec::new();
    // 64 bits, little endian, version 1, no OS ABI.
    elf.extend(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    elf.extend([EXECUTABLE, machine].map(u16::to_le_bytes).concat());
    elf.extend(1_u32.to_le_bytes());
    // Entry point, offset of the program headers, no section headers; flags 0.
    elf.extend([LOAD_ADDRESS + start, u64::from(HEADER_BYTES), 0].map(u64::to_le_bytes).concat());
    elf.extend(0_u32.to_le_bytes());
    elf.extend([HEADER_BYTES, PROGRAM_HEADER_BYTES, 1, 0, 0, 0].map(u16::to_le_bytes).concat());
    // The whole file, in one segment.
    elf.extend([LOAD, READ_AND_EXECUTE].map(u32::to_le_bytes).concat());
    elf.extend([0, LOAD_ADDRESS, LOAD_ADDRESS, length, length, 0x1_0000].map(u64::to_le_bytes).concat());
    elf.extend(code);
    elf
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(machine: u16, code: &[u8]) {
        let elf = image(machine, code);
        assert!(elf.len() < 200 && elf.starts_with(b"\x7fELF\x02\x01\x01"));
        let number = |at: usize, bytes: usize| {
            elf[at..at + bytes].iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
        };
        // e_type, e_machine, e_version, e_phoff, e_ehsize, e_phentsize, e_phnum
        assert_eq!((number(16, 2), number(18, 2), number(20, 4)), (2, u64::from(machine), 1));
        assert_eq!((number(32, 8), number(52, 2), number(54, 2), number(56, 2)), (64, 64, 56, 1));
        // p_type, p_offset, p_vaddr, p_filesz, p_memsz
        assert_eq!((number(64, 4), number(72, 8), number(80, 8)), (1, 0, LOAD_ADDRESS));
        assert_eq!((number(96, 8), number(104, 8)), (elf.len() as u64, elf.len() as u64));
        // e_entry points to the code, which is at the end of the file.
        assert_eq!(&elf[usize::try_from(number(24, 8) - LOAD_ADDRESS).unwrap()..], code);
    }

    #[test]
    fn both_headers_point_to_the_code() {
        check(X86_64, X86_64_CODE);
        check(AARCH64, AARCH64_CODE);
    }

    #[test]
    fn program_runs_and_is_removed() {
        let tiny = TinyProgram::write(&program().ok().unwrap()).ok().unwrap();
        let path = tiny.path();
        // A child of another test can hold the file open for writing until its exec.
        let status = loop {
            match process::Command::new(&path).status() {
                Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {}
                status => break status.unwrap(),
            }
        };
        assert_eq!(status.code(), Some(0));
        drop(tiny);
        assert!(!path.exists());
    }
}
