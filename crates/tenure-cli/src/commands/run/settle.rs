//! What becomes of the lock after the command's end, and of this process.

use std::time::Duration;

use tenure::clock::{SystemClock, within};
use tenure::error::Chain;
use tenure::{ErrorKind, Guard, Limits, Locks};

use super::held::Ended;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::{open, say};

/// Gives the lock back, or leaves it: for what is left of the least time to hold it, or because
/// something of the command may go on.
pub(crate) async fn settle(
    locks: &Locks,
    guard: Guard,
    ended: Result<Ended, Failure>,
    least: Option<Duration>,
) -> Result<Exit, Failure> {
    match (ended, least) {
        (Ok(Ended::Itself(exit)), Some(left)) if guard.is_held() => {
            leave(locks, guard, left).await;
            Ok(exit)
        }
        (Ok(Ended::Itself(exit)), _) => give_back(guard).await.map(|()| exit),
        (Ok(Ended::Remains(failure)), _) => {
            let _ = guard.detach();
            Err(failure)
        }
        (Ok(Ended::Lost(failure) | Ended::NotBegun(failure)) | Err(failure), _) => {
            let_go(guard).await;
            Err(failure)
        }
    }
}

/// Gives the lock back after the command's end. A store that fails now changes nothing about what
/// the command did, so that is a warning; that the lock was gone before is a failure.
async fn give_back(guard: Guard) -> Result<(), Failure> {
    match guard.release().await {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::Lost => Err(Failure::of_error(&error)
            .advise("the command ran to its end, the last of it without the lock")),
        Err(error) => {
            say::not_given_back(&error);
            Ok(())
        }
    }
}

/// Gives back what may be lost already: if it is not, the next need not wait for the ttl.
pub(super) async fn let_go(guard: Guard) {
    let _ = within(&SystemClock, open::FLUSH_MAX, guard.release()).await;
}

/// Leaves the lock to the store for the rest of the least time.
async fn leave(locks: &Locks, guard: Guard, left: Duration) {
    let lease = guard.detach();
    let left = left.max(ttl_min(locks));
    if let Err(error) = locks.renew(lease.key.as_str(), &lease.owner, left).await {
        say::error(&format_args!(
            "warning: the lock may end before --at-least is over: {}",
            Chain(&error)
        ));
    }
}

/// The shortest lease that these locks take.
pub(super) fn ttl_min(locks: &Locks) -> Duration {
    Limits::default().ttl_min.max(locks.store().capabilities.ttl_min)
}
