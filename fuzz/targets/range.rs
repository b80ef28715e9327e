//! Ranges. A part lies within the file and is not empty. A range of plain numbers gives exactly those bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbox_runtime::http::range::{Range, range};

fuzz_target!(|input: (u64, u64, u64, &[u8])| {
    let (size, first, last, value) = input;
    for value in [value, &[b"bytes=", value].concat()] {
        match range(value, size) {
            Range::Part { offset, length } => {
                assert!(length > 0 && offset.checked_add(length).is_some_and(|end| end <= size));
                assert!(value.get(..6).is_some_and(|unit| unit.eq_ignore_ascii_case(b"bytes=")));
            }
            Range::Unsatisfiable | Range::Whole => {}
        }
    }
    let part = |offset: u64, end: u64| match end.checked_sub(offset) {
        None | Some(0) => Range::Unsatisfiable,
        Some(length) => Range::Part { offset, length },
    };
    let requested = |value: String| range(value.as_bytes(), size);
    assert_eq!(requested(format!("bytes={first}-")), part(first, size));
    assert_eq!(requested(format!("bytes=-{last}")), part(size - last.min(size), size));
    let both = if first > last { Range::Whole } else { part(first, last.saturating_add(1).min(size)) };
    assert_eq!(requested(format!("bytes={first}-{last}")), both);
});
