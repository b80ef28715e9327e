//! The number of a round, which decides whether the server or the floor is measured first.

use crate::response::Stop;

/// The order alternates, so that a machine that slows down over time favours neither.
#[derive(Clone, Copy)]
pub(super) struct Round(pub(super) usize);

impl Round {
    pub(super) fn plus(self, blocks: usize) -> Self {
        Self(self.0 + blocks)
    }

    pub(super) fn is_floor_first(self) -> bool {
        self.0 % 2 == 1
    }

    pub(super) fn both<S, F>(
        self,
        server: impl FnOnce() -> Result<S, Stop>,
        floor: impl FnOnce() -> Result<F, Stop>,
    ) -> Result<(S, F), Stop> {
        if self.is_floor_first() {
            let floor = floor()?;
            Ok((server()?, floor))
        } else {
            let server = server()?;
            Ok((server, floor()?))
        }
    }
}
