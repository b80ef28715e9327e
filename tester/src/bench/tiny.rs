//! The smallest program there is: it ends with 0. What remains of running it is what a process costs.
//!
//! An ELF header, one program header and three instructions, see elf(5).

use std::env::consts::ARCH;

const HEADER_BYTES: u16 = 64;
const PROGRAM_HEADER_BYTES: u16 = 56;
const AT: u64 = 0x40_0000;

const EXECUTABLE: u16 = 2;
const LOAD: u32 = 1;
const READ_AND_EXECUTE: u32 = 4 + 1;

const X86_64: u16 = 62;
const AARCH64: u16 = 183;

/// `xor edi, edi; mov eax, 60; syscall`: exit(0).
const X86_64_CODE: &[u8] = &[0x31, 0xff, 0xb8, 60, 0, 0, 0, 0x0f, 0x05];

/// `mov x0, 0; mov x8, 93; svc 0`: exit(0).
const AARCH64_CODE: &[u8] = &[0x00, 0x00, 0x80, 0xd2, 0xa8, 0x0b, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4];

/// For this machine, if it is known here.
pub(super) fn program() -> Option<Vec<u8>> {
    match ARCH {
        "x86_64" => Some(image(X86_64, X86_64_CODE)),
        "aarch64" => Some(image(AARCH64, AARCH64_CODE)),
        _ => None,
    }
}

fn image(machine: u16, code: &[u8]) -> Vec<u8> {
    let start = u64::from(HEADER_BYTES) + u64::from(PROGRAM_HEADER_BYTES);
    let length = start + code.len() as u64;
    let mut elf = Vec::new();
    // 64 bits, little endian, version 1; the kind of system is not said.
    elf.extend(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    elf.extend([EXECUTABLE, machine].map(u16::to_le_bytes).concat());
    elf.extend(1_u32.to_le_bytes());
    // The first instruction; the program headers; no sections; no flags.
    elf.extend([AT + start, u64::from(HEADER_BYTES), 0].map(u64::to_le_bytes).concat());
    elf.extend(0_u32.to_le_bytes());
    elf.extend([HEADER_BYTES, PROGRAM_HEADER_BYTES, 1, 0, 0, 0].map(u16::to_le_bytes).concat());
    // The whole file, at one place.
    elf.extend([LOAD, READ_AND_EXECUTE].map(u32::to_le_bytes).concat());
    elf.extend([0, AT, AT, length, length, 0x1_0000].map(u64::to_le_bytes).concat());
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
        assert_eq!((number(64, 4), number(72, 8), number(80, 8)), (1, 0, AT));
        assert_eq!((number(96, 8), number(104, 8)), (elf.len() as u64, elf.len() as u64));
        // e_entry leads to the code, which is the end of the file.
        assert_eq!(&elf[usize::try_from(number(24, 8) - AT).unwrap()..], code);
    }

    #[test]
    fn both_headers_say_where_the_code_is() {
        check(X86_64, X86_64_CODE);
        check(AARCH64, AARCH64_CODE);
    }
}
