//! A store that fails while it is watched: said once, and once more when it is over.

use std::sync::atomic::{AtomicBool, Ordering};

use tenure::error::Chain;

use crate::say;

/// Whether the last look failed.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    is_told: AtomicBool,
}

impl Trouble {
    /// The look failed, and there will be another.
    pub(crate) fn tell(&self, error: &tenure::Error) {
        if !self.is_told.swap(true, Ordering::Relaxed) {
            say::error(&format_args!("warning: {}; trying again", Chain(error)));
        }
    }

    /// The look did not fail.
    pub(crate) fn is_over(&self) {
        if self.is_told.swap(false, Ordering::Relaxed) {
            say::progress(&"the store answers again");
        }
    }
}
