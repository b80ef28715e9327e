//! Helpers for several targets. Each target begins with the properties that must hold for every input; a
//! panic is a finding.

/// Passes the input to `run` whole, byte by byte, in small steps, and split in two at many positions, or at
/// every one of a short input.
pub fn in_pieces(input: &[u8], mut run: impl FnMut(&[&[u8]])) {
    run(&[input]);
    for step in [1, 3, 61] {
        run(&input.chunks(step).collect::<Vec<_>>());
    }
    let stride = input.len() / 16 + 1;
    for at in (0..=input.len()).step_by(stride) {
        let (front, back) = input.split_at(at);
        run(&[front, back]);
    }
}

/// The position of this text.
pub fn find(input: &[u8], text: &[u8]) -> Option<usize> {
    input.windows(text.len()).position(|window| window == text)
}
