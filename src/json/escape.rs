//! Bytes to the inside of a JSON string: invalid UTF-8 becomes U+FFFD, one for each maximal invalid sequence,
//! as in Python's `errors="replace"`; then characters are escaped as RFC 8259 section 7 requires.

/// The size of a part, which is escaped in memory before it is written.
const PART_BYTES: usize = 16 << 10;

/// The text of a byte string, in parts: valid UTF-8, or U+FFFD for an invalid sequence.
pub(super) struct Decoded<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Decoded<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let (window, _) = self.0.split_at(self.0.len().min(PART_BYTES));
        let (part, length) = match std::str::from_utf8(window) {
            Ok("") => return None,
            Ok(text) => (text, text.len()),
            Err(error) => match (error.valid_up_to(), error.error_len()) {
                (0, invalid) => ("\u{fffd}", invalid.unwrap_or(window.len())),
                (valid, _) => (std::str::from_utf8(window.split_at(valid).0).unwrap_or_default(), valid),
            },
        };
        self.0 = self.0.split_at(length).1;
        Some(part)
    }
}

/// Appends a byte string as the inside of a JSON string.
pub fn push_escaped(bytes: &[u8], out: &mut Vec<u8>) {
    Decoded(bytes).for_each(|part| push_escaped_text(part, out));
}

/// Most text needs no escape: a block that needs none is copied as it is.
pub(super) fn push_escaped_text(text: &str, out: &mut Vec<u8>) {
    let (blocks, rest) = text.as_bytes().as_chunks::<8>();
    out.reserve(text.len());
    for block in blocks {
        if block.iter().fold(true, |plain, byte| plain & is_plain(*byte)) {
            out.extend_from_slice(block);
        } else {
            block.iter().for_each(|byte| push_escaped_byte(*byte, out));
        }
    }
    rest.iter().for_each(|byte| push_escaped_byte(*byte, out));
}

pub(super) fn needs_no_escape(text: &str) -> bool {
    text.bytes().all(is_plain)
}

const fn is_plain(byte: u8) -> bool {
    (byte >= 0x20) & (byte != b'"') & (byte != b'\\')
}

#[expect(clippy::indexing_slicing, reason = "the table has an entry for every byte")]
fn push_escaped_byte(byte: u8, out: &mut Vec<u8>) {
    static ESCAPES: [Escape; 256] = Escape::table();
    let Escape { bytes, length } = &ESCAPES[usize::from(byte)];
    // Copying a fixed size and truncating is several times faster than copying the exact length.
    out.extend_from_slice(bytes);
    out.truncate(out.len() - bytes.len() + length);
}

/// One byte as it appears inside a JSON string: the first `length` of these bytes.
#[derive(Clone, Copy)]
struct Escape {
    bytes: [u8; 8],
    length: usize,
}

impl Escape {
    const fn new(byte: u8) -> Self {
        let short = match byte {
            byte if is_plain(byte) => return Self { bytes: [byte, 0, 0, 0, 0, 0, 0, 0], length: 1 },
            b'"' | b'\\' => byte,
            b'\n' => b'n',
            b'\t' => b't',
            b'\r' => b'r',
            0x08 => b'b',
            0x0c => b'f',
            _ => {
                let bytes = [b'\\', b'u', b'0', b'0', hex_digit(byte >> 4), hex_digit(byte & 15), 0, 0];
                return Self { bytes, length: 6 };
            }
        };
        Self { bytes: [b'\\', short, 0, 0, 0, 0, 0, 0], length: 2 }
    }

    #[expect(clippy::indexing_slicing, reason = "the table has an entry for every byte")]
    const fn table() -> [Self; 256] {
        let mut table = [Self::new(0); 256];
        let mut byte = u8::MAX;
        while byte > 0 {
            table[byte as usize] = Self::new(byte);
            byte -= 1;
        }
        table
    }
}

const fn hex_digit(number: u8) -> u8 {
    if number < 10 { b'0' + number } else { b'a' + number - 10 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: &str) {
        let mut escaped = Vec::new();
        push_escaped(bytes, &mut escaped);
        assert_eq!(String::from_utf8(escaped).unwrap(), expected);
    }

    #[test]
    fn valid_text_is_kept_and_invalid_bytes_are_replaced() {
        check(b"ok\xff\xfeend", "ok\u{fffd}\u{fffd}end"); // OU-06
        check(b"a\r\nb\rc", r"a\r\nb\rc"); // OU-09
        check(b"\x1b[31m\x01\x08\x7f\t\"\\\0", "\\u001b[31m\\u0001\\b\u{7f}\\t\\\"\\\\\\u0000"); // OU-12
        check(b"\xed\xa0\xbd \xf0\x9f\x98", "\u{fffd}\u{fffd}\u{fffd} \u{fffd}"); // OU-13
    }

    #[test]
    fn parts_are_cut_between_characters() {
        let text = "é".repeat(PART_BYTES) + "€";
        check(text.as_bytes(), &text);
        check(&[b"a", text.as_bytes()].concat(), &format!("a{text}"));
    }
}
