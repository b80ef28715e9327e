//! What several targets need. Each target states in its first lines what must hold for every input; a panic is a finding.

/// Shows `run` the input in one piece, byte by byte, in small steps, and cut in two at many places, or at all where it is
/// short.
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

/// Where this text begins.
pub fn find(input: &[u8], text: &[u8]) -> Option<usize> {
    input.windows(text.len()).position(|window| window == text)
}
