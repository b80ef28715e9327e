//! Errors, lists and numbers as Python prints them. Deployed clients match on these texts, which the
//! reference takes from Python and glibc; those of musl differ.

use crate::sys::errno;
use std::io;

/// `[Errno 2] No such file or directory: 'x'`, as `str(OSError)` gives it.
pub(super) fn os_error(error: &io::Error, name: Option<&str>) -> String {
    // The standard library creates this kind without an errno.
    let errno = error.raw_os_error().or(match error.kind() {
        io::ErrorKind::NotFound => Some(2),
        _ => None,
    });
    let Some(errno) = errno else { return error.to_string() };
    let message =
        ERRORS.iter().find(|(number, _)| *number == errno).map_or("Unknown error", |(_, message)| message);
    let name = name.map(|name| format!(": {}", string(name))).unwrap_or_default();
    format!("[Errno {errno}] {message}{name}")
}

/// The errors of starting a program and of file operations, with glibc's messages (errno(3)).
const ERRORS: [(i32, &str); 32] = [
    (errno::EPERM, "Operation not permitted"),
    (errno::ENOENT, "No such file or directory"),
    (errno::EINTR, "Interrupted system call"),
    (errno::EIO, "Input/output error"),
    (errno::ENXIO, "No such device or address"),
    (errno::E2BIG, "Argument list too long"),
    (errno::ENOEXEC, "Exec format error"),
    (errno::EBADF, "Bad file descriptor"),
    (errno::ECHILD, "No child processes"),
    (errno::EAGAIN, "Resource temporarily unavailable"),
    (errno::ENOMEM, "Cannot allocate memory"),
    (errno::EACCES, "Permission denied"),
    (errno::EFAULT, "Bad address"),
    (errno::EBUSY, "Device or resource busy"),
    (errno::EEXIST, "File exists"),
    (errno::EXDEV, "Invalid cross-device link"),
    (errno::ENODEV, "No such device"),
    (errno::ENOTDIR, "Not a directory"),
    (errno::EISDIR, "Is a directory"),
    (errno::EINVAL, "Invalid argument"),
    (errno::ENFILE, "Too many open files in system"),
    (errno::EMFILE, "Too many open files"),
    (errno::ETXTBSY, "Text file busy"),
    (errno::EFBIG, "File too large"),
    (errno::ENOSPC, "No space left on device"),
    (errno::EROFS, "Read-only file system"),
    (errno::ENAMETOOLONG, "File name too long"),
    (errno::ENOSYS, "Function not implemented"),
    (errno::ELOOP, "Too many levels of symbolic links"),
    (errno::ELIBBAD, "Accessing a corrupted shared library"),
    (errno::ESTALE, "Stale file handle"),
    (errno::EDQUOT, "Disk quota exceeded"),
];

/// `['sleep', 'infinity']`, as `repr(list)` gives it.
pub(super) fn list(items: impl Iterator<Item = impl AsRef<str>>) -> String {
    format!("[{}]", items.map(|item| string(item.as_ref())).collect::<Vec<_>>().join(", "))
}

/// `repr(str)`: in single quotes, unless the text has single quotes and no double ones.
pub(super) fn string(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            _ if character == quote => out.extend(['\\', quote]),
            _ if is_printable(character) => out.push(character),
            _ => out.push_str(&escape(character)),
        }
    }
    out.push(quote);
    out
}

/// `str.isprintable`. Rust's table has the same categories, but is accessible only through `escape_debug`,
/// which does not escape printable characters and, after another character, combining marks.
fn is_printable(character: char) -> bool {
    let text = ['a', character].iter().collect::<String>();
    let escaped = text.escape_debug().to_string();
    escaped == text || matches!(character, '\'' | '"')
}

fn escape(character: char) -> String {
    match u32::from(character) {
        code @ 0..=0xff => format!("\\x{code:02x}"),
        code @ 0x100..=0xffff => format!("\\u{code:04x}"),
        code => format!("\\U{code:08x}"),
    }
}

/// `repr(float)` of a finite number: `3.0`, `0.05`, `1e+16`, `1e-05`.
pub(super) fn float(number: f64) -> String {
    let text = format!("{number:?}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{digits}e{sign}{exponent:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_printed_as_in_python() {
        let missing = io::Error::from_raw_os_error(2);
        assert_eq!(os_error(&missing, Some("x")), "[Errno 2] No such file or directory: 'x'");
        assert_eq!(
            os_error(&io::Error::from_raw_os_error(errno::EAGAIN), None),
            "[Errno 11] Resource temporarily unavailable"
        );
        assert_eq!(
            os_error(&io::ErrorKind::NotFound.into(), Some("it's")),
            "[Errno 2] No such file or directory: \"it's\""
        );
    }

    #[test]
    fn lists_are_printed_as_in_python() {
        assert_eq!(list(["sleep", "infinity"].iter()), "['sleep', 'infinity']");
        assert_eq!(list([""].iter()), "['']");
    }

    #[test]
    fn strings_are_printed_as_in_python() {
        for (text, expected) in [
            ("it's", "\"it's\""),
            ("it's \"so\"", "'it\\'s \"so\"'"),
            ("\"so\"", "'\"so\"'"),
            ("a\n\r\t\\\0\u{1b}\u{7f}", r"'a\n\r\t\\\x00\x1b\x7f'"),
            ("é€😀e\u{301}", "'é€😀e\u{301}'"),
            ("\u{a0}\u{ad}\u{200b}\u{2028}\u{feff}", r"'\xa0\xad\u200b\u2028\ufeff'"),
            ("\u{e000}\u{e0001}", r"'\ue000\U000e0001'"),
        ] {
            assert_eq!(string(text), expected);
        }
    }

    #[test]
    fn floats_are_printed_as_in_python() {
        for (number, expected) in [
            (3.0, "3.0"),
            (0.05, "0.05"),
            (1e16, "1e+16"),
            (1e-5, "1e-05"),
            (1.5e300, "1.5e+300"),
            (123_456_789.0, "123456789.0"),
            (0.0001, "0.0001"),
        ] {
            assert_eq!(float(number), expected);
        }
    }
}
