//! Models of writers of one record, and of a process that completes the changes of dead writers.
//! For each rule of the protocol, a test disables the rule and finds a broken invariant.

use super::model::{Config, I1, I2, I3, I4, Script, TOLD};
use super::tiny::{
    BY_NOTE, BY_PLACE, Tiny, TinyRequest, at, delete, expiring, insert, move_to, note, put, raise, record,
};
use super::usually;
use crate::views::row::{CLOCKS_APART_MICROS, Found, MAX_MUST_GO, Token, Tokens, Version};
use crate::views::rules::Rule;
use crate::views::write::{Action, Answer, Decision, Event, StepContext, Write};

/// Returns a model without faults, in which processes with different clocks change a record at
/// place 1.
fn writers(scripts: &[&[TinyRequest]]) -> Config {
    let clock = |index: usize| if index == 1 { 10 } else { 0 };
    let scripts = scripts.iter().enumerate();
    Config {
        schema: Some(Tiny::new(1, &[BY_PLACE, BY_NOTE])),
        first: Some(record(1, None)),
        scripts: scripts
            .map(|(index, requests)| Script::new(clock(index), requests))
            .collect(),
        ..Config::default()
    }
}

/// Returns the model of `writers` with one more process, which completes the changes of dead
/// processes.
fn swept(scripts: &[&[TinyRequest]]) -> Config {
    let mut config = writers(scripts);
    config.scripts.push(Script::default());
    config.sweeps = true;
    config
}

#[test]
fn two_writers_and_lost_answers() {
    let config = Config {
        losses: usually(1, 2),
        ..writers(&[&[put(2, Some(1))], &[move_to(3), note(None)]])
    };
    config.holds("two writers", &["all asked and quiet"]);
}

#[test]
fn three_writers() {
    writers(&[&[put(2, None)], &[move_to(3)], &[delete()]]).holds("three writers", &["all asked and quiet"]);
}

#[test]
fn insert_delete_insert() {
    let config = Config {
        first: None,
        losses: usually(2, 3),
        ..writers(&[&[insert(1), delete()], &[insert(2)]])
    };
    config.holds("insert, delete, insert", &["all asked and quiet", "refused"]);
}

#[test]
fn on_condition_of_a_version() {
    let config = Config {
        losses: usually(2, 3),
        ..writers(&[&[at(0, put(2, None))], &[at(0, put(3, None))]])
    };
    config.holds("if version", &["all asked and quiet", "refused"]);
}

#[test]
fn deadlines() {
    let config = Config {
        losses: 1,
        deadlines: usually(1, 2),
        ..writers(&[&[put(2, Some(1))], &[move_to(3)]])
    };
    config.holds("deadlines", &["all asked and quiet", "unknown", "pending"]);
}

#[test]
fn a_crash() {
    let config = Config {
        crashes: 1,
        losses: usually(1, 2),
        ..swept(&[&[move_to(2)], &[move_to(3)]])
    };
    config.holds("a crash", &["all asked and quiet"]);
}

#[test]
fn one_ends_and_another_crashes() {
    let config = Config {
        crashes: 1,
        leaves: 1,
        losses: 1,
        ..swept(&[&[move_to(2)], &[move_to(3)]])
    };
    config.holds("one ends, one crashes", &["all asked and quiet"]);
}

#[test]
fn a_crash_of_who_sweeps_after_a_crash() {
    let config = Config {
        crashes: 2,
        losses: usually(0, 1),
        ..swept(&[&[put(2, Some(1))]])
    };
    config.holds("a crash of the sweeper", &["all asked and quiet"]);
}

#[test]
fn a_version_is_raised_beside_moves() {
    let config = Config {
        crashes: 1,
        losses: usually(0, 1),
        ..swept(&[&[raise(20)], &[move_to(3)]])
    };
    config.holds("raised", &["all asked and quiet"]);
}

#[test]
fn a_crash_at_an_insert() {
    let config = Config {
        first: None,
        crashes: 1,
        losses: 1,
        ..swept(&[&[insert(1)], &[put(2, None), delete()]])
    };
    config.holds("a crash at an insert", &["all asked and quiet", "refused"]);
}

#[test]
fn a_process_is_frozen_and_let_go() {
    let config = Config {
        freezes: 1,
        losses: usually(0, 1),
        ..swept(&[&[move_to(2)], &[move_to(3)]])
    };
    config.holds("frozen", &["all asked and quiet"]);
}

/// Returns a model with a record that expires, and with a process that completes changes, whose
/// clock is ahead.
fn expiring_early() -> Config {
    let mut config = Config {
        crashes: 1,
        mortal: Some(0),
        ..swept(&[&[expiring(2, 10)]])
    };
    config.scripts[1].clock = CLOCKS_APART_MICROS;
    config
}

#[test]
fn a_record_expires_by_one_clock_and_not_by_another() {
    expiring_early().holds("clocks apart by an hour", &["all asked and quiet"]);
}

#[test]
fn without_entries_that_outlive_their_record() {
    expiring_early().breaks(Rule::EntriesOutlive, &[I1]);
}

/// Returns a model with two writers that may crash, and a process that completes their changes.
fn crashing(first: &[TinyRequest], second: &[TinyRequest]) -> Config {
    Config {
        crashes: 1,
        ..swept(&[first, second])
    }
}

/// Returns a model with two writers, in which one request has an unknown outcome.
fn losing(first: &[TinyRequest], second: &[TinyRequest]) -> Config {
    Config {
        losses: 1,
        ..writers(&[first, second])
    }
}

#[test]
fn without_the_intent_first() {
    crashing(&[move_to(2)], &[]).breaks(Rule::IntentFirst, &[I1]);
}

#[test]
fn without_a_lease() {
    let config = Config {
        freezes: 1,
        ..swept(&[&[move_to(2)]])
    };
    // Other processes declare the frozen process dead, and complete its changes. Then it continues
    // to write without a lease, and crashes.
    let config = Config { crashes: 1, ..config };
    config.breaks(Rule::LeaseHolds, &[I1]);
}

#[test]
fn without_repeating_the_identical_write() {
    losing(&[move_to(2)], &[]).breaks(Rule::RepeatIdentical, &[I3]);
}

#[test]
fn without_doubt_after_what_was_not_sent() {
    let config = Config {
        losses: 2,
        ..writers(&[&[move_to(2)]])
    };
    config.breaks(Rule::DoubtStays, &[I3]);
}

#[test]
fn without_distrust_of_reads() {
    losing(&[move_to(2)], &[]).breaks(Rule::ReadDecidesNothing, &[I3]);
}

#[test]
fn without_earlier_tokens() {
    losing(&[move_to(2)], &[move_to(3)]).breaks(Rule::TokensRemembered, &[TOLD]);
}

#[test]
fn without_doubt_about_what_is_forgotten() {
    let mut config = losing(&[move_to(2)], &[move_to(3)]);
    // A row loses tokens only after many changes, which would need too many states. So let the row
    // remember only one token.
    config.without[1] = Some(Rule::TokensRemembered);
    config.breaks(Rule::ForgottenIsUnknown, &[I3]);
}

#[test]
fn without_carrying_on_what_must_go() {
    crashing(&[move_to(2)], &[move_to(3)]).breaks(Rule::MustGoCarried, &[I1, I2]);
}

#[test]
fn without_removing_what_was() {
    writers(&[&[move_to(2)]]).breaks(Rule::MustGoOld, &[I1]);
}

#[test]
fn without_sparing_what_is() {
    writers(&[&[note(Some(1))]]).breaks(Rule::MustGoSparesNew, &[I1]);
}

#[test]
fn without_asking_whose_mark_it_is() {
    crashing(&[move_to(2)], &[move_to(3)]).breaks(Rule::DoneByVersion, &[I1, I2]);
}

#[test]
fn without_entries_before_the_mark() {
    crashing(&[move_to(2)], &[move_to(3)]).breaks(Rule::DoneAfterEntries, &[I1, I2]);
}

#[test]
fn without_entries_before_the_acknowledgement() {
    writers(&[&[move_to(2)]]).breaks(Rule::AcknowledgeAfterEntries, &[I2]);
}

#[test]
fn without_entries_before_settling() {
    crashing(&[move_to(2)], &[]).breaks(Rule::SettleAfterEntries, &[I1]);
}

#[test]
fn without_rising_versions() {
    writers(&[&[move_to(2)], &[move_to(3)]]).breaks(Rule::VersionsRise, &[I4]);
}

#[test]
fn without_the_rows_version_on_entries() {
    crashing(&[move_to(2)], &[move_to(3)]).breaks(Rule::EntriesAtVersion, &[I1]);
}

#[test]
fn without_clearing_what_nulls_stand_for() {
    writers(&[&[note(Some(1)), note(None)]]).breaks(Rule::NullsRemoved, &[I1]);
}

#[test]
fn without_replacing_the_token() {
    crashing(&[move_to(2)], &[]).breaks(Rule::FenceReplacesToken, &[I1]);
}

#[test]
fn without_a_row_for_the_absent() {
    let config = Config {
        first: None,
        ..crashing(&[insert(1)], &[])
    };
    config.breaks(Rule::FenceAbsent, &[I1]);
}

#[test]
fn without_a_row_for_the_deleted() {
    let config = Config {
        first: None,
        ..losing(&[insert(1), delete()], &[])
    };
    config.breaks(Rule::DeletedRowStays, &[I3]);
}

/// Checks that versions need not be two apart: no invariant breaks without the rule `VersionGap`.
#[test]
fn versions_one_apart() {
    let config = Config {
        without: [Some(Rule::VersionGap), None],
        crashes: 1,
        losses: usually(0, 1),
        ..swept(&[&[put(2, Some(1)), note(None)], &[move_to(1)]])
    };
    config.holds("versions one apart", &["all asked and quiet"]);
}

/// Checks the outcome of a conditional write if later changes removed the expected token from the
/// row. If the write was sent once, it failed. If it was sent again, its outcome is unknown.
#[test]
fn a_lost_write_sent_once_is_known_to_be_lost() {
    let schema = Tiny::new(1, &[BY_PLACE]);
    let here = |token| StepContext {
        schema: &schema,
        owner: &0,
        now: 0,
        token: Token(token),
        has_lease: true,
    };
    let others = Tokens::new((10..18).map(Token).collect());
    for in_doubt in [false, true] {
        let mut write = Write::<Tiny>::change(put(2, None));
        write.step(Event::Begin, &here(0));
        write.step(Event::Noted, &here(0));
        write.step(Event::Read(Found::absent()), &here(1));
        if in_doubt {
            write.step(Event::Decided(Token(1), Decision::Unknown), &here(2));
        }
        let lost = Decision::NotApplied(others.clone());
        let actions = write.step(Event::Decided(Token(1), lost), &here(3));
        let is_told = actions.contains(&Action::Answer(Answer::Unknown));
        assert_eq!(is_told, in_doubt, "{actions:?}");
        assert!(matches!(actions.last(), Some(Action::Look { .. })), "{actions:?}");
    }
}

/// Checks that a write first executes the removals that a row lists, if there are too many, and
/// then changes the row.
#[test]
fn too_much_to_remove_is_resolved_first() {
    let schema = Tiny::new(1, &[BY_PLACE]);
    let here = |token| StepContext {
        schema: &schema,
        owner: &0,
        now: 0,
        token: Token(token),
        has_lease: true,
    };
    let mut found = Found::absent();
    assert_eq!(MAX_MUST_GO, 16);
    for place in 0..=18 {
        let mut write = Write::<Tiny>::change(put(place, None));
        write.step(Event::Begin, &here(0));
        write.step(Event::Noted, &here(0));
        let token = u128::from(place) * 2 + 1;
        let mut actions = write.step(Event::Read(found.clone()), &here(token));
        if place == 18 {
            // No write was marked as done, so the row lists the maximum number of keys to remove.
            // This write therefore executes the removals first.
            let Some(Action::Cas(conditional)) = actions.pop() else {
                panic!("no conditional write")
            };
            assert_eq!(
                conditional.row.record,
                found.row.as_ref().and_then(|row| row.record)
            );
            found.row = Some(conditional.row);
            write.step(Event::Decided(Token(token), Decision::Applied), &here(0));
            actions = write.step(Event::Written, &here(0));
            // The write does not wait until the mark of its entries is stored, and here the mark
            // never arrives.
            assert_eq!(actions[0], Action::MarkDone(Version(34)));
            actions = write.step(Event::Read(found.clone()), &here(token + 1));
        }
        let Some(Action::Cas(conditional)) = actions.pop() else {
            panic!("no conditional write")
        };
        found.row = Some(conditional.row);
    }
    assert_eq!(found.row.expect("a row").must_go.len(), 1);
}
