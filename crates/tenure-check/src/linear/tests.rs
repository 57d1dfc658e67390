//! Orders that fit and orders that do not, by hand.

use super::*;
use crate::history::Look;
use crate::record::What;
use crate::sample::{Sample, TTL, found, options};
use crate::verdict::Checker::Linear;
use crate::verdict::Losses;

#[track_caller]
fn fits(sample: &Sample) {
    assert_eq!(found(sample, Linear), [""; 0]);
    assert_eq!(sample.verdict().undecided, [""; 0]);
}

#[track_caller]
fn breaks(sample: &Sample, part: &str) {
    let texts = found(sample, Linear);
    assert!(texts.iter().any(|text| text.contains(part)), "{part:?} is not in {texts:?}");
}

#[test]
fn a_lock_that_works_fits() {
    let mut sample = Sample::default();
    sample.granted(1, "k", 10, 20, 1).held(2, "k", 15, 30).released(1, 40, 50);
    sample.granted(2, "k", 45, 48, 2).held(3, "k", 46, 60).released(2, 70, 80);
    fits(&sample);
}

#[test]
fn two_that_were_granted_are_found() {
    let mut sample = Sample::default();
    sample.granted(1, "k", 10, 20, 1).granted(2, "k", 30, 40, 2);
    breaks(&sample, "granted to worker 2 (fence 2) while worker 1 (fence 1) held it");
}

#[test]
fn a_lease_may_end_by_itself_but_not_before_its_ttl() {
    let mut sample = Sample::default();
    sample.granted(1, "k", 10, 20, 1).granted(2, "k", 30, 10 + TTL, 2);
    fits(&sample);
    let mut sample = Sample::default();
    sample.granted(1, "k", 10, 20, 1).granted(2, "k", 30, TTL - 100, 2);
    breaks(&sample, "while worker 1");
}

#[test]
fn a_belief_that_was_seen_late_shows_that_the_lease_was_prolonged() {
    let mut sample = Sample::default();
    sample.granted(1, "k", 10, 20, 1).believed(1, 5 * TTL);
    sample.granted(2, "k", 30, 4 * TTL, 2);
    breaks(&sample, "while worker 1");
}

#[test]
fn a_refusal_needs_someone_who_holds() {
    let mut sample = Sample::default();
    sample.granted(1, "k", 10, 20, 1).released(1, 30, 40).held(2, "k", 50, 60);
    breaks(&sample, "worker 2 was told that it is held, and nobody held it");
    // Someone who was killed before the answer may have.
    sample.asked(3, "k", 45, 0).killed(3, 46);
    fits(&sample);
    // But not for longer than a ttl.
    let mut later = sample.clone();
    later.held(2, "k", 46 + 2 * TTL, 50 + 2 * TTL);
    breaks(&later, "worker 2 was told that it is held, and nobody held it");
    // And not twice, with a grant in between.
    sample.granted(1, "k", 70, 80, 2).released(1, 90, 95).held(2, "k", 100, 110);
    breaks(&sample, "nobody held it");
}

#[test]
fn a_fence_that_goes_back_has_no_place() {
    let mut sample = Sample::default();
    sample.granted(1, "k", 10, 20, 2).released(1, 30, 40).granted(2, "k", 50, 60, 1);
    breaks(&sample, "the last fence was 2");
    // Side by side, the fences say which was first.
    let mut sample = Sample::default();
    sample.granted(1, "k", 10, 100, 2).released(1, 120, 130);
    sample.granted(2, "k", 20, 30, 1).released(2, 40, 50);
    fits(&sample);
}

#[test]
fn a_release_of_what_another_holds_is_found() {
    let mut sample = Sample::default();
    sample.granted(1, "k", 10, 20, 1);
    sample.granted(2, "k", 30, 2 * TTL, 2).released(1, 2 * TTL + 10, 2 * TTL + 20);
    breaks(&sample, "granted to worker 2");
    let mut sample = Sample::default();
    sample.granted(1, "k", 10, 20, 1).released(1, 30, 40);
    sample.next(1, 60, What::Released);
    fits(&sample);
}

#[test]
fn a_loss_before_the_lease_could_end_is_found() {
    let mut sample = Sample::default();
    sample.granted(1, "k", 10, 20, 1).lost(1, 30, 40);
    breaks(&sample, "before the lease could end");
    let mut sample = Sample::default();
    sample.granted(1, "k", 10, 20, 1).lost(1, 30, 2 * TTL);
    fits(&sample);
}

#[test]
fn what_was_let_go_or_forced_may_end_at_any_later_time() {
    let mut sample = Sample::default();
    sample.granted(1, "k", 10, 20, 1).next(1, 30, What::Dropped);
    sample.granted(2, "k", 30, 60, 2);
    sample.note(9, 0, "k", 70, What::Forced { fence: 2 });
    sample.granted(3, "k", 65, 80, 3).lost(2, 90, 95);
    fits(&sample);
}

#[test]
fn too_much_work_is_undecided_and_not_well() {
    let mut sample = Sample::default();
    for n in 0..20 {
        sample.granted(1, "k", 100 * n + 1, 100 * n + 10, n + 1);
        sample.released(1, 100 * n + 20, 100 * n + 30);
    }
    let mut verdict = Verdict::default();
    let options = Options { steps_max: 5, ..options() };
    check(&sample.history(), &options, &mut verdict);
    assert_eq!(verdict.undecided, ["k"]);
}

/// Worker 2 waits in vain while worker 1 holds, where answers are lost; then `refused` is when
/// worker 3 is told that the key is held.
fn after_a_wait(refused: u64) -> usize {
    let mut sample = Sample::default();
    sample.granted(1, "k", 10, 20, 1).asked(2, "k", 30, 100).next(2, 130, What::Held);
    sample.released(1, 140, 150).held(3, "k", refused, refused + 10);
    let mut verdict = Verdict::default();
    let losses = Losses::AtAnyTime;
    check(&sample.history(), &Options { losses, ..options() }, &mut verdict);
    verdict.violations.len()
}

#[test]
fn one_that_waited_in_vain_may_have_had_it_for_a_moment_and_no_longer() {
    assert_eq!(after_a_wait(200), 0);
    assert_eq!(after_a_wait(200 + TTL), 1);
}

/// The first answer to worker 2 was lost, and that lease has ended before it is granted another.
#[test]
fn one_that_has_it_in_the_end_may_have_had_it_before() {
    let mut sample = Sample::default();
    sample.asked(2, "k", 10, 500).held(3, "k", 20, 30);
    sample.granted(4, "k", 120, 130, 1).released(4, 140, 150);
    sample.next(2, 200, What::Granted { fence: 2 });
    let violations = |losses, sample: &Sample| {
        let mut verdict = Verdict::default();
        check(&sample.history(), &Options { losses, ..options() }, &mut verdict);
        verdict.violations.len()
    };
    assert_eq!(violations(Losses::AtAnyTime, &sample), 0);
    assert_eq!(violations(Losses::Never, &sample), 1);
    // Told, it is no secret.
    sample.asked(2, "k", 10, 0).next(2, 15, What::Failed { kind: "Doubt".into(), unknown: true });
    assert_eq!(violations(Losses::Never, &sample), 0);
}

/// Worker 1 holds the key from 20 to 40; then one looks, or forces.
fn looked(asked: u64, fence: Option<u64>, forces: bool) -> Vec<String> {
    let mut sample = Sample::default();
    sample.granted(1, "k", 10, 20, 1).released(1, 30, 40).granted(2, "k", 60, 70, 2);
    let mut history = sample.history();
    let key = "k".to_owned();
    history.looks = vec![Look { key, asked, answered: asked + 5, fence, forces }];
    let mut verdict = Verdict::default();
    check(&history, &options(), &mut verdict);
    verdict.violations.into_iter().map(|violation| violation.text).collect()
}

#[test]
fn one_that_looks_is_told_the_truth() {
    for (asked, fence) in [(12, None), (17, Some(1)), (25, Some(1)), (38, None), (45, None)] {
        assert_eq!(looked(asked, fence, false), [""; 0], "{asked} {fence:?}");
    }
    for (asked, fence) in [(4, Some(1)), (22, None), (45, Some(1)), (72, Some(1)), (72, None)] {
        assert_eq!(looked(asked, fence, false).len(), 1, "{asked} {fence:?}");
    }
}

/// One that looks is told of a fence that nobody was told of; worker 3 may have it.
#[test]
fn one_that_nobody_was_told_of_needs_someone_who_asked_and_a_fence_of_its_own() {
    let told = "fence 9 was said to hold it, which nobody had, and worker 1 (fence 1) held it";
    for forces in [false, true] {
        assert_eq!(looked(22, Some(9), forces), [told]);
        let told = "fence 9 was said to hold it, which nobody had, and nobody held it";
        assert_eq!(looked(45, Some(9), forces), [told]);
    }
    let found = |fences: &[u64], next| {
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 4).released(1, 30, 40).asked(3, "k", 25, 0).killed(3, 35);
        sample.granted(2, "k", 80, 90, next);
        let mut history = sample.history();
        let look = |fence: &u64| {
            let (key, asked, answered) = ("k".to_owned(), 50, 60);
            Look { key, asked, answered, fence: Some(*fence), forces: false }
        };
        history.looks = fences.iter().map(look).collect();
        let mut verdict = Verdict::default();
        check(&history, &options(), &mut verdict);
        verdict.violations.len()
    };
    assert_eq!((found(&[7], 8), found(&[7, 7], 8), found(&[3], 8)), (0, 0, 1));
    // What comes after it has a greater one.
    assert_eq!(found(&[7], 6), 1);
}

/// Worker 1 gives back too late and is told so; then one looks.
#[test]
fn a_lease_that_was_lost_stays_only_where_those_who_ask_time_it() {
    let found = |is_observed| {
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 1).lost(1, 30 + TTL, 40 + TTL);
        let mut history = sample.history();
        let (key, asked, answered) = ("k".to_owned(), 50 + TTL, 60 + TTL);
        history.looks = vec![Look { key, asked, answered, fence: Some(1), forces: false }];
        let mut verdict = Verdict::default();
        check(&history, &Options { is_observed, ..options() }, &mut verdict);
        verdict.violations.len()
    };
    assert_eq!((found(true), found(false)), (0, 1));
}

/// Worker 1 holds the key and its lease can be timed; one that has says that it is free, and after
/// it one that has not that it is held. Worker 1 may give it back.
#[test]
fn whoever_has_timed_a_lease_speaks_for_itself() {
    let found = |is_observed, free: u64, gives_back: bool| {
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 1);
        if gives_back {
            sample.released(1, 80 + TTL, 90 + TTL);
        }
        let mut history = sample.history();
        let look = |asked, fence| {
            let (key, answered) = ("k".to_owned(), asked + 5);
            Look { key, asked, answered, fence, forces: false }
        };
        history.looks = vec![look(free, None), look(50 + TTL, Some(1))];
        let mut verdict = Verdict::default();
        check(&history, &Options { is_observed, ..options() }, &mut verdict);
        verdict.violations.len()
    };
    for gives_back in [false, true] {
        assert_eq!(found(true, 30 + TTL, gives_back), 0);
        assert_eq!(found(false, 30 + TTL, gives_back), 1);
        assert_eq!(found(true, TTL - 30, gives_back), 1);
    }
}

/// Worker 1 is told of a failure so much after it asked; meanwhile worker 2 is told that the key is
/// held.
#[test]
fn a_grant_that_came_too_late_to_be_of_use_held_the_key() {
    let found = |took: u64, losses| {
        let mut sample = Sample::default();
        sample.asked(1, "k", 10, 0).held(2, "k", 30, 40);
        sample.next(1, 10 + took, What::Failed { kind: "Unavailable".into(), unknown: false });
        let mut verdict = Verdict::default();
        check(&sample.history(), &Options { losses, ..options() }, &mut verdict);
        verdict.violations.len()
    };
    assert_eq!((found(TTL, Losses::AtAnyTime), found(TTL / 3, Losses::AtAnyTime)), (0, 1));
    // Told, it is no failure of that claim.
    assert_eq!(found(TTL, Losses::Never), 1);
}

#[test]
fn a_force_ends_the_lease_that_it_names() {
    let told = "worker 1 (fence 1) gave it back, but nobody held it";
    assert_eq!(looked(21, Some(1), true), [told]);
    assert_eq!(looked(72, Some(2), true), [""; 0]);
    let told = "it was taken by force from worker 1 (fence 1), and worker 2 (fence 2) held it";
    assert_eq!(looked(72, Some(1), true), [told]);
    assert_eq!(looked(72, None, true).len(), 1);
}

#[test]
fn a_doubt_about_an_answer_does_not_explain_it() {
    let mut sample = Sample::default();
    sample.held(2, "k", 50, 60);
    let (asked, failed) = (
        What::Asked { ttl: TTL, wait: Some(0) },
        What::Failed { kind: "Doubt".into(), unknown: true },
    );
    sample.note(2, 99, "k", 50, asked);
    sample.note(2, 99, "k", 60, failed);
    breaks(&sample, "nobody held it");
    // But whatever another is told.
    let mut sample = sample.clone();
    sample.records.retain(|record| record.what != What::Held);
    sample.held(3, "k", 55, 70);
    fits(&sample);
}
