//! A store that fails while it is watched: said once, and once more when it is over.

use tenure::error::Chain;

use crate::say;

/// Whether the last look failed.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    is_told: bool,
}

impl Trouble {
    /// The look failed, and there will be another.
    pub(crate) fn tell(&mut self, error: &tenure::Error) {
        if !self.is_told {
            say::error(&format_args!("warning: {}; trying again", Chain(error)));
        }
        self.is_told = true;
    }

    /// The look did not fail.
    pub(crate) fn is_over(&mut self) {
        if self.is_told {
            say::progress(&"the store answers again");
        }
        self.is_told = false;
    }
}
