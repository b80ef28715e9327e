//! A `Range` header: which part of a file is requested (RFC 9110 section 14).
//!
//! Only a single range of bytes is supported. Any other value is ignored, as the RFC allows: the client gets
//! the whole file, with a 200 that says so.

/// Which part of a file to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    Whole,
    /// `length` is at least 1, and `offset + length` at most the size.
    Part {
        offset: u64,
        length: u64,
    },
    Unsatisfiable,
}

/// The requested part of a file of `size_bytes`.
pub fn range(value: &[u8], size_bytes: u64) -> Range {
    let Some((first, last)) = ends(value) else { return Range::Whole };
    let (offset, end) = match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => (first, last.saturating_add(1).min(size_bytes)),
        (Some(first), None) if last.is_empty() => (first, size_bytes),
        (None, Some(suffix)) if first.is_empty() => (size_bytes.saturating_sub(suffix), size_bytes),
        _ => return Range::Whole,
    };
    match end.checked_sub(offset) {
        None | Some(0) => Range::Unsatisfiable,
        Some(length) => Range::Part { offset, length },
    }
}

/// Both sides of the only `-` in `bytes=…`.
fn ends(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let (unit, ranges) = value.split_at_checked(b"bytes=".len())?;
    let mut ends = ranges.trim_ascii().split(|byte| *byte == b'-');
    let both = (ends.next()?, ends.next()?);
    (unit.eq_ignore_ascii_case(b"bytes=") && ends.next().is_none()).then_some(both)
}

/// Digits only. A number past `u64` becomes the largest one: no file is that large.
fn number(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let value = || {
        digits
            .iter()
            .fold(0_u64, |value, digit| value.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
    };
    is_number.then(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &str, expected: Range) {
        assert_eq!(range(value.as_bytes(), 10), expected, "{value}");
    }

    #[test]
    fn a_single_range_is_supported() {
        // DL-07
        check("bytes=0-3", Range::Part { offset: 0, length: 4 });
        check("bytes=5-", Range::Part { offset: 5, length: 5 });
        check("bytes=-3", Range::Part { offset: 7, length: 3 });
        check("bytes=-300", Range::Part { offset: 0, length: 10 });
        check("bytes=9-100", Range::Part { offset: 9, length: 1 });
        check("Bytes=0-18446744073709551616", Range::Part { offset: 0, length: 10 });
    }

    #[test]
    fn a_range_outside_the_file_is_unsatisfiable() {
        for value in ["bytes=10-", "bytes=-0", "bytes=10-20", "bytes=99999999999999999999-"] {
            check(value, Range::Unsatisfiable);
        }
        assert_eq!(range(b"bytes=0-", 0), Range::Unsatisfiable);
        assert_eq!(range(b"bytes=-5", 0), Range::Unsatisfiable);
    }

    #[test]
    fn any_other_range_is_ignored() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=3",
            "bytes=3-1",
            "bytes=+1-3",
            "bytes=1-+3",
            "bytes=0x1-3",
            "lines=0-3",
            "bytes=0-1,3-4",
            "bytes=0-1-2",
            "bytes=a-b",
            "bytes= 1 - 3",
            "bytes=--3",
        ] {
            check(value, Range::Whole);
        }
    }
}
