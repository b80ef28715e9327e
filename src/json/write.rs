//! Writes JSON to any [`io::Write`] while it is produced, so that a large value is never held as a whole.
//!
//! A [`ValueWriter`] writes exactly one value. Every error is one of the output. Objects and arrays put the
//! commas; [`ObjectWriter::end`] and
//! [`ArrayWriter::end`] must be called.

use super::escape::{Decoded, needs_no_escape, push_escaped_text};
use std::fmt::Display;
use std::io;

/// The place of one value.
pub(crate) struct ValueWriter<'w> {
    out: &'w mut dyn io::Write,
}

/// An object, field by field.
pub(crate) struct ObjectWriter<'w> {
    out: &'w mut dyn io::Write,
    is_empty: bool,
}

/// An array, item by item.
pub(crate) struct ArrayWriter<'w> {
    out: &'w mut dyn io::Write,
    is_empty: bool,
}

/// A string, piece by piece.
pub(crate) struct StringWriter<'w> {
    out: &'w mut dyn io::Write,
}

impl<'w> ValueWriter<'w> {
    pub(crate) fn new(out: &'w mut dyn io::Write) -> Self {
        Self { out }
    }

    pub(crate) fn string(self, text: impl AsRef<[u8]>) -> io::Result<()> {
        let mut string = self.begin_string()?;
        string.push(text.as_ref())?;
        string.end()
    }

    pub(crate) fn begin_string(self) -> io::Result<StringWriter<'w>> {
        self.out.write_all(b"\"")?;
        Ok(StringWriter { out: self.out })
    }

    pub(crate) fn bool(self, value: bool) -> io::Result<()> {
        write!(self.out, "{value}")
    }

    pub(crate) fn integer(self, number: impl Into<i128> + Display) -> io::Result<()> {
        write!(self.out, "{number}")
    }

    /// A finite number.
    pub(crate) fn float(self, number: f64) -> io::Result<()> {
        write!(self.out, "{number:?}")
    }

    pub(crate) fn object(self) -> io::Result<ObjectWriter<'w>> {
        self.out.write_all(b"{")?;
        Ok(ObjectWriter { out: self.out, is_empty: true })
    }

    pub(crate) fn array(self) -> io::Result<ArrayWriter<'w>> {
        self.out.write_all(b"[")?;
        Ok(ArrayWriter { out: self.out, is_empty: true })
    }
}

impl<'w> ObjectWriter<'w> {
    /// Continues an object whose beginning, with at least one field, has been written already.
    pub(crate) fn resume(out: &'w mut dyn io::Write) -> Self {
        Self { out, is_empty: false }
    }

    pub(crate) fn field(&mut self, name: &str) -> io::Result<ValueWriter<'_>> {
        separate(self.out, &mut self.is_empty)?;
        ValueWriter::new(self.out).string(name)?;
        self.out.write_all(b":")?;
        Ok(ValueWriter::new(self.out))
    }

    pub(crate) fn end(self) -> io::Result<()> {
        self.out.write_all(b"}")
    }
}

impl ArrayWriter<'_> {
    pub(crate) fn item(&mut self) -> io::Result<ValueWriter<'_>> {
        separate(self.out, &mut self.is_empty)?;
        Ok(ValueWriter::new(self.out))
    }

    pub(crate) fn end(self) -> io::Result<()> {
        self.out.write_all(b"]")
    }
}

fn separate(out: &mut dyn io::Write, is_empty: &mut bool) -> io::Result<()> {
    if std::mem::take(is_empty) { Ok(()) } else { out.write_all(b",") }
}

impl<'w> StringWriter<'w> {
    /// Continues a string whose beginning has been written already.
    pub(crate) fn resume(out: &'w mut dyn io::Write) -> Self {
        Self { out }
    }

    /// Writes bytes as text, in parts. Bytes that are not UTF-8 become U+FFFD; a character must not be split
    /// between two calls.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut escaped = Vec::new();
        for part in Decoded(bytes) {
            if needs_no_escape(part) {
                self.out.write_all(part.as_bytes())?;
            } else {
                escaped.clear();
                push_escaped_text(part, &mut escaped);
                self.out.write_all(&escaped)?;
            }
        }
        Ok(())
    }

    pub(crate) fn end(self) -> io::Result<()> {
        self.out.write_all(b"\"")
    }
}

/// One value as bytes.
pub(crate) fn to_bytes(write: impl FnOnce(ValueWriter<'_>) -> io::Result<()>) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Writing to memory cannot fail.
    let _infallible = write(ValueWriter::new(&mut bytes));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(write: impl FnOnce(ValueWriter<'_>) -> io::Result<()>, expected: &str) {
        assert_eq!(String::from_utf8(to_bytes(write)).unwrap(), expected);
    }

    #[test]
    fn values_are_written() {
        check(|value| value.string("a\"\n"), r#""a\"\n""#);
        check(|value| value.string(b"\xff"), "\"\u{fffd}\"");
        check(|value| value.bool(true), "true");
        check(|value| value.integer(u64::MAX), "18446744073709551615");
        check(|value| value.float(1_700_000_000.0), "1700000000.0");
        check(|value| value.float(-0.25), "-0.25");
        check(|value| value.object()?.end(), "{}");
        check(|value| value.array()?.end(), "[]");
    }

    #[test]
    fn commas_separate_fields_and_items() {
        let write = |value: ValueWriter<'_>| {
            let mut object = value.object()?;
            object.field("a")?.integer(1)?;
            let mut array = object.field("b")?.array()?;
            array.item()?.bool(false)?;
            array.item()?.object()?.end()?;
            array.end()?;
            object.field("c")?.string("")?;
            object.end()
        };
        check(write, r#"{"a":1,"b":[false,{}],"c":""}"#);
    }

    #[test]
    fn a_string_and_its_object_can_be_resumed() {
        let mut bytes = to_bytes(|value| value.object()?.field("a")?.begin_string().map(drop));
        let resumed = |out: &mut Vec<u8>| {
            let mut string = StringWriter::resume(out);
            string.push(b"x\t")?;
            string.push(b"y")?;
            string.end()?;
            let mut object = ObjectWriter::resume(out);
            object.field("b")?.integer(2)?;
            object.end()
        };
        resumed(&mut bytes).unwrap();
        assert_eq!(bytes, br#"{"a":"x\ty","b":2}"#);
    }
}
