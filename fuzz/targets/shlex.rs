//! Commands. Words that are quoted, in any of four ways, come back from `split`; white space around a command changes
//! nothing; a command that can be split can be continued.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbox_runtime::api::compat::shlex::split;

fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    let outcome = split(&text);
    assert_eq!(split(&format!(" \t\r\n{text}")), outcome);
    if let Ok(words) = &outcome {
        assert!(words.iter().map(|word| word.chars().count()).sum::<usize>() <= text.chars().count());
        assert_eq!(split(&format!("{text} \n")).as_ref(), Ok(words));
        let more = [&words[..], &["x".to_owned()]].concat();
        assert_eq!(split(&format!("{text}\tx")), Ok(more));
    }

    let words: Vec<String> = text.split('\u{1}').map(str::to_owned).collect();
    for turn in 0..4 {
        let quoted = words.iter().enumerate().map(|(index, word)| match (index + turn) % 4 {
            0 => format!("'{}'", word.replace('\'', "'\"'\"'")),
            1 => format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"")),
            2 => format!("\"{}\"", sparingly(word)),
            _ if word.is_empty() => "''".to_owned(),
            _ => word.chars().flat_map(|character| ['\\', character]).collect(),
        });
        assert_eq!(split(&quoted.collect::<Vec<_>>().join(" ")).as_ref(), Ok(&words));
    }
});

/// For double quotes, with a backslash only where one is needed: elsewhere it is an ordinary character.
fn sparingly(word: &str) -> String {
    let mut quoted = String::new();
    for (index, character) in word.char_indices() {
        let next = word[index + character.len_utf8()..].chars().next();
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' if matches!(next, None | Some('"' | '\\')) => quoted.push_str("\\\\"),
            other => quoted.push(other),
        }
    }
    quoted
}
