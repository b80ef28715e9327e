//! Parsers of the values of settings.
//!
//! Each error is the last part of `invalid NAME "VALUE": …`: what was expected, or why the value cannot be
//! used.

use crate::deadline::seconds;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Without ASCII whitespace at either end.
pub(super) fn trimmed(value: &OsStr) -> &OsStr {
    OsStr::from_bytes(value.as_bytes().trim_ascii())
}

pub(super) fn text(value: &OsStr) -> Result<&str, String> {
    value.to_str().ok_or_else(|| "not valid UTF-8".into())
}

/// A relative path is relative to the directory in which the server was started.
pub(super) fn absolute_path(value: &OsStr) -> Result<PathBuf, String> {
    std::path::absolute(Path::new(value)).map_err(|error| error.to_string())
}

pub(super) fn secret_in_file(path: &OsStr) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| error.to_string())
}

/// Digits only, and greater than 0.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|number| is_number && *number > 0);
    number.ok_or_else(|| "expected a whole number of bytes greater than 0".into())
}

/// The size of a buffer in memory; 0 is allowed.
pub(super) fn buffer_bytes(text: &str) -> Result<usize, String> {
    let number = if text == "0" { 0 } else { bytes(text)? };
    usize::try_from(number).map_err(|error| error.to_string())
}

/// A number of seconds that is a timeout.
pub(super) fn timeout_seconds(text: &str) -> Result<f64, String> {
    let number = float(text).filter(|number| seconds(*number).is_some());
    number.ok_or_else(|| "expected a finite number greater than 0".into())
}

/// A number of seconds; 0 is allowed.
pub(super) fn duration_or_zero(text: &str) -> Result<Duration, String> {
    let duration = match float(text) {
        Some(0.0) => Some(Duration::ZERO),
        number => number.and_then(seconds),
    };
    duration.ok_or_else(|| "expected a finite number, 0 or greater".into())
}

/// A number as Python's `float` reads it, which allows an underscore between two digits (CG-04).
fn float(text: &str) -> Option<f64> {
    let bytes = text.as_bytes();
    let has_misplaced_underscore = bytes.iter().enumerate().any(|(index, byte)| {
        let is_digit =
            |index: Option<usize>| index.and_then(|index| bytes.get(index)).is_some_and(u8::is_ascii_digit);
        *byte == b'_' && !(is_digit(index.checked_sub(1)) && is_digit(index.checked_add(1)))
    });
    if has_misplaced_underscore { None } else { text.replace('_', "").parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_as_python_reads_a_float() {
        // CG-02, CG-04
        for (value, expected) in [
            ("5", 5.0),
            ("+5", 5.0),
            ("5.", 5.0),
            (".5", 0.5),
            ("1e3", 1000.0),
            ("1_000", 1000.0),
            ("1.7e308", 1.7e308),
        ] {
            assert_eq!(timeout_seconds(value), Ok(expected), "{value:?}");
        }
    }

    #[test]
    fn only_positive_finite_numbers_are_timeouts() {
        // CG-03
        for value in [
            "5s", "", " ", "5,0", "0x10", "five", "5 5", "_5", "5_", "1__0", "0", "-1", "nan", "inf", "1e999",
        ] {
            let error = timeout_seconds(value).unwrap_err();
            assert_eq!(error, "expected a finite number greater than 0", "{value:?}");
        }
    }

    #[test]
    fn grace_may_be_zero_but_not_negative() {
        for zero in ["0", "0.0", "-0", "0e5"] {
            assert_eq!(duration_or_zero(zero), Ok(Duration::ZERO), "{zero:?}");
        }
        assert_eq!(duration_or_zero("0.5"), Ok(Duration::from_millis(500)));
        for value in ["-1", "-0.1", "nan", "inf", "", "soon"] {
            duration_or_zero(value).unwrap_err();
        }
    }

    #[test]
    fn bytes_are_digits_only() {
        assert_eq!(bytes("18446744073709551615"), Ok(u64::MAX));
        assert_eq!((buffer_bytes("0"), buffer_bytes("7")), (Ok(0), Ok(7)));
        for value in ["", "0", "+5", "-5", "5k", "1_000", "1e3", " 5", "18446744073709551616"] {
            bytes(value).unwrap_err();
        }
        for value in ["", "00", "+5", "-0"] {
            buffer_bytes(value).unwrap_err();
        }
    }
}
