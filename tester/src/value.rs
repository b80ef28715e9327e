//! Values of options.

use std::time::Duration;

use crate::usage::{Error, MAX_SECONDS};

pub(crate) fn seconds(text: &str) -> Result<Duration, Error> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= MAX_SECONDS => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(Error::Seconds(text.to_owned())),
    }
}

/// Rust's own parsers accept a plus sign.
pub(crate) fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
