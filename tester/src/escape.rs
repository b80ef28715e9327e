//! Bytes from the server as printable text: terminal control sequences never reach the terminal.

const MAX_PREVIEW_CHARS: usize = 700;

/// The beginning of `bytes` as one line of printable text.
pub(crate) fn preview(bytes: &[u8]) -> String {
    // A character is at most four bytes long, so this prefix is never too short.
    let prefix_bytes = bytes.len().min(MAX_PREVIEW_CHARS * 4);
    let text = escaped(bytes.get(..prefix_bytes).unwrap_or(bytes));
    match text.char_indices().nth(MAX_PREVIEW_CHARS) {
        Some((end, _)) => format!("{}... ({} bytes in all)", text.get(..end).unwrap_or(&text), bytes.len()),
        None => text,
    }
}

/// `bytes` as one line of printable text. Quotes are kept, so that JSON stays readable.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '"' | '\'' => out.push(char),
                _ => out.extend(char.escape_debug()),
            }
        }
        for byte in chunk.invalid() {
            out += &format!("\\x{byte:02x}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: &str) {
        assert_eq!(escaped(bytes), expected);
    }

    #[test]
    fn control_sequences_are_escaped() {
        check(b"{\"a\":'b'}", "{\"a\":'b'}");
        check(b"a\r\nb\tc", r"a\r\nb\tc");
        check(b"\x1b[31m\x00\x7f", r"\u{1b}[31m\0\u{7f}");
        check("é😀".as_bytes(), "é😀");
        check("\u{9b}\u{202e}\u{2028}".as_bytes(), r"\u{9b}\u{202e}\u{2028}");
        check(b"a\xff\xc3", r"a\xff\xc3");
        check(b"\\", r"\\");
    }

    #[test]
    fn preview_is_bounded_and_shows_the_length() {
        assert_eq!(preview(b"short"), "short");
        let long = preview(&[b'x'; 100_000]);
        assert!(long.ends_with("x... (100000 bytes in all)"));
        assert!(long.len() < MAX_PREVIEW_CHARS + 40);
        assert!(preview("é".repeat(100_000).as_bytes()).ends_with("é... (200000 bytes in all)"));
    }
}
