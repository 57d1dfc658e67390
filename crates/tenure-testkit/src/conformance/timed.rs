//! The cases that are about time: a store that is slow breaks them in good faith.

use tenure::ErrorKind;

use super::Case;
use crate::wait::InVain;

struct Timed {
    case: &'static str,
    /// What it says when time has run out.
    says: &'static [&'static str],
}

const fn timed(case: &'static str, says: &'static [&'static str]) -> Timed {
    Timed { case, says }
}

const TIMED: &[Timed] = &[
    // A grant within 100 ms.
    timed("expiry::a_grant_that_comes_too_late_is_given_back", &["only "]),
    // Renewals within a ttl of 1.2 s.
    timed("renewal::keep_alive_outlives_the_ttl", &["lost although it was kept alive"]),
    timed("renewal::a_forced_release_is_told_to_the_holder", &["Expired"]),
    timed("renewal::the_longest_hold_is_kept", &["Expired"]),
    timed("renewal::work_is_stopped_when_the_lock_is_gone", &[]),
    // An answer within 300 ms, and within 200 ms.
    timed("waiting::the_wait_ends_in_time", &["waited ", "the wait ended without an answer"]),
    timed("waiting::a_waiter_sees_who_holds_the_key", &["not shown"]),
    // Two questions within a ttl of 1.5 s, and a dozen within 5 s.
    timed("waiting::a_failure_does_not_hide_the_end_of_a_lease", &[]),
    timed("waiting::a_store_that_fails_is_asked_again_soon_however_long_the_wait", &[]),
    // Two renewals within 900 ms.
    timed("ambiguity::a_lost_reply_to_renew_costs_nothing", RENEWAL),
    timed("ambiguity::a_renewal_that_hangs_costs_nothing", RENEWAL),
    timed("ambiguity::an_acquire_that_hangs_ends_with_its_wait_and_is_undone", &[]),
    // A helper that opens the store at once.
    timed("crash::a_killed_holder_is_taken_over_by_its_ttl", &["taken over only "]),
    timed("crash::a_grant_outlives_the_process_that_got_it", &["is gone: None"]),
];

const RENEWAL: &[&str] = &["no renewal was struck", "one bad renewal cost the lock"];

/// The names of all of them.
pub fn timed_cases() -> impl Iterator<Item = &'static str> {
    TIMED.iter().map(|timed| timed.case)
}

impl Case {
    /// Whether this is a case about time, and the error says that time has run out.
    #[must_use]
    pub fn ran_out_of_time(&self, error: &anyhow::Error) -> bool {
        let Some(timed) = TIMED.iter().find(|timed| timed.case == self.name()) else {
            return false;
        };
        let text = format!("{error:#}");
        let is_told = |kind| matches!(kind, ErrorKind::TimedOut | ErrorKind::Lost);
        let mut errors = error.chain().filter_map(|cause| cause.downcast_ref::<tenure::Error>());
        errors.any(|error| is_told(error.kind()))
            || error.chain().any(<dyn std::error::Error>::is::<InVain>)
            || timed.says.iter().any(|says| text.starts_with(says) || text.ends_with(says))
    }
}
