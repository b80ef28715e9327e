//! Python as the oracle: the reference is written in it, and clients match on its wording.

use kit::is_missing;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// Evaluates a Python expression for each `x`. `None` if Python is not installed. The modules `shlex`, `os`
/// and `unicodedata` are imported; `words` is `shlex.split` with the error text as a value.
pub(crate) fn evaluate(expression: &str, inputs: &[Value]) -> Option<Vec<Value>> {
    if is_missing("python3") {
        return None;
    }
    let script = format!(
        "import sys, json, shlex, os, unicodedata\n\
         def words(text):\n\
         \x20   try: return shlex.split(text)\n\
         \x20   except ValueError as error: return str(error)\n\
         for line in sys.stdin.buffer:\n\
         \x20   x = json.loads(line)\n\
         \x20   print(json.dumps({expression}))\n"
    );
    let mut command = Command::new("python3");
    command.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let lines: String = inputs.iter().map(|input| format!("{input}\n")).collect();
    let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()).unwrap());
    let values = BufReader::new(child.stdout.take().unwrap()).lines();
    let values = values.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect::<Vec<Value>>();
    writer.join().unwrap();
    assert!(child.wait().unwrap().success() && values.len() == inputs.len());
    Some(values)
}

/// A seeded pseudo-random generator (splitmix64): the same seed gives the same sequence.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    /// Seeded from the clock.
    pub(crate) fn new() -> Self {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        Self(u64::from(now.subsec_nanos()) ^ now.as_secs().rotate_left(32))
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((number ^ (number >> 31)) % limit as u64).unwrap()
    }

    pub(crate) fn text(&mut self, alphabet: &[char], longest: usize) -> String {
        (0..self.below(longest + 1)).map(|_| alphabet[self.below(alphabet.len())]).collect()
    }
}
