//! Models of the ring (list of body tables): keepers close, empty and reopen tables while senders
//! send.

use std::collections::BTreeMap;

use super::ring_keeper::Task::{self, Drop, Empty, Fence, Rehome, Retire, Roll};
use super::world::Config;
use super::{Q1, Q5, usually};
use crate::queues::limits::{MAX_TABLES, UNUSED_MICROS};
use crate::queues::rules::Rule;
use crate::queues::{
    BodyTable, Emptied, Life, Owner, Phase, Protocol, QueueId, Register, Ring, RingCommand, RingContext,
    RingResponse,
};

/// Returns a model with a sender, and keepers that do these tasks with body tables.
fn keeping(keepers: &[&[Task]]) -> Config {
    Config {
        senders: vec![vec![1]],
        ring_keepers: keepers.iter().map(|tasks| tasks.to_vec()).collect(),
        segment_messages: 2,
        losses: usually(0, 1),
        ..Config::default()
    }
}

/// Returns a model in which the first body table is closed, emptied and opened again while senders
/// send. One process may crash.
fn turning() -> Config {
    Config {
        senders: (1..=usually(1, 2)).map(|message| vec![message]).collect(),
        crashes: 1,
        ..keeping(&[&[Roll(1), Fence(1), Rehome(1), Empty(1), Roll(2)]])
    }
}

/// Returns the model of `turning` in which the outcome of emptying a table is unknown.
fn turning_in_doubt() -> Config {
    Config {
        losses: 1,
        only_emptying_is_lost: true,
        ..turning()
    }
}

/// Returns a model with two keepers, one of which considers the other dead.
fn retiring() -> Config {
    keeping(&[
        &[Roll(1), Fence(1), Empty(1), Roll(2)],
        &[Fence(1), Empty(1), Retire(1)],
    ])
}

/// Returns a model in which bodies are copied to a table that is closed, emptied and reopened
/// meanwhile. The copying process also reads the ring for other tasks.
fn rehoming() -> Config {
    Config {
        tables: 3,
        shares_ring: true,
        ..keeping(&[
            &[Rehome(1)],
            &[Roll(1), Fence(1), Roll(2), Fence(2), Empty(2), Roll(3)],
        ])
    }
}

/// Returns a configuration with three keepers. The first keeper reads a manifest, and copies bodies so late that
/// the second keeper has moved the segment to another table, and moves it back to the first table.
fn rehoming_late() -> Config {
    Config {
        is_sent: true,
        senders: vec![],
        tables: 3,
        losses: 0,
        ..keeping(&[
            &[Rehome(1)],
            &[
                Roll(1),
                Fence(1),
                Rehome(1),
                Empty(1),
                Roll(2),
                Fence(2),
                Rehome(2),
            ],
            &[Roll(1)],
        ])
    }
}

/// Returns a configuration in which the first table is retired and dropped. The sender has seen the table open.
fn dropping() -> Config {
    Config {
        senders: vec![vec![1, 2]],
        losses: 0,
        ..keeping(&[&[Roll(1), Fence(1), Rehome(1), Empty(1)], &[Retire(1), Drop(1)]])
    }
}

/// Returns a model in which a keeper counts the segments in a body table so slowly that the table
/// has been closed a second time.
fn counting_late() -> Config {
    Config {
        tables: 3,
        ..keeping(&[
            &[Roll(1), Fence(1), Empty(1), Roll(2), Roll(1), Fence(1)],
            &[Empty(1)],
        ])
    }
}

/// Returns a model in which a keeper reports so late that all shards know of a closing table that
/// the table is closing a second time.
fn fencing_late() -> Config {
    Config {
        tables: 3,
        ..keeping(&[
            &[Roll(1), Fence(1), Empty(1), Roll(2), Roll(1), Empty(1)],
            &[Fence(1)],
        ])
    }
}

/// Returns a model in which a body table is emptied while a process with an old ring creates a
/// queue.
fn making() -> Config {
    Config {
        is_new: true,
        ..keeping(&[&[Roll(1), Fence(1), Empty(1)]])
    }
}

/// Returns a model in which a temporary queue begins while another process searches for ended
/// temporary queues, and empties their tables.
fn beginning() -> Config {
    Config {
        senders: vec![],
        has_unit: true,
        tables: 3,
        ..keeping(&[&[Empty(2)]])
    }
}

#[test]
fn a_unit_begins_beside_a_keeper() {
    beginning().holds("a unit begins", &["sent into a unit"]);
}

#[test]
fn without_the_registry_after_the_ring() {
    beginning().breaks(Rule::EndedByLaterRegistry, Q1);
}

#[test]
fn a_table_is_emptied_beside_a_sender() {
    turning().holds("a table is emptied", &["a table is free again", "rehomed"]);
    turning_in_doubt().holds("a table is emptied, in doubt", &["retired"]);
}

#[test]
fn a_queue_is_made_beside_a_keeper() {
    making().holds("a queue is made", &["all sent", "a table is free again"]);
}

#[test]
fn without_a_fence_that_makes_the_head() {
    making().breaks(Rule::HeadMadeByFence, Q1);
}

#[test]
fn two_keepers_do_no_harm() {
    retiring().holds("two keepers", &["a table is free again", "retired"]);
}

#[test]
fn sends_into_another_table_after_a_drop() {
    dropping().holds("a table is dropped", &["all sent though a table was dropped"]);
}

#[test]
fn bodies_are_copied_beside_a_keeper() {
    rehoming().holds("bodies are copied", &["rehomed"]);
}

#[test]
fn copies_bodies_by_a_manifest_read_after_the_ring() {
    rehoming_late().holds("bodies are copied late", &["rehomed", "a table is open again"]);
}

#[test]
fn ignores_late_reports_of_an_earlier_life() {
    counting_late().holds("references counted late", &["a table is open again"]);
    fencing_late().holds("fenced late", &["a table is open again"]);
}

#[test]
fn without_the_life_that_was_counted() {
    counting_late().breaks(Rule::BelievedInItsLife, Q1);
}

#[test]
fn without_the_life_that_was_fenced() {
    fencing_late().breaks(Rule::BelievedInItsLife, Q1);
}

#[test]
fn without_a_fence() {
    turning().breaks(Rule::HeadsFenced, Q1);
}

#[test]
fn without_the_rings_version() {
    turning().breaks(Rule::RingNoOlderThanFence, Q1);
}

#[test]
fn without_copying_first() {
    turning().breaks(Rule::CopiedBeforePointing, Q1);
}

#[test]
fn without_the_ring_of_the_copy() {
    rehoming().breaks(Rule::PointedByRingOfCopy, Q1);
}

#[test]
fn without_the_head_after_the_ring() {
    rehoming_late().breaks(Rule::CopiedByLaterHead, Q1);
}

#[test]
fn without_counting_references() {
    retiring().breaks(Rule::EmptiedUnreferenced, Q1);
}

#[test]
fn without_emptying_once() {
    turning_in_doubt().breaks(Rule::EmptiedOnce, Q5);
}

#[test]
fn without_leaving_an_owner_alone() {
    retiring().breaks(Rule::NoTakeOver, Q5);
}

/// Ring (list of body tables) that executes one command after the other.
struct Rings {
    ring: Ring,
    now: i64,
}

impl Rings {
    fn is_told(&mut self, command: RingCommand) -> RingResponse {
        let context = RingContext {
            now: self.now,
            protocol: Protocol::default(),
        };
        let before = self.ring.clone();
        let response = self.ring.work_out(&command, false, &context);
        if self.ring != before {
            self.ring.raise();
        }
        response
    }
}

#[test]
fn a_unit_has_a_table_to_itself_until_it_ends() {
    use RingResponse::{Done, NotYet, Short};
    let mut rings = Rings {
        ring: Ring::absent(),
        now: 0,
    };
    let (unit, other) = (QueueId(5), QueueId(6));
    for table in 1..=2 {
        assert_eq!(rings.is_told(RingCommand::Add(BodyTable(table))), Done);
    }
    // The only free table is needed for the next rotation, so the temporary queue does not get it.
    assert_eq!(rings.is_told(RingCommand::Begin(unit)), Short);
    assert_eq!(rings.is_told(RingCommand::Add(BodyTable(3))), Done);
    assert_eq!(rings.is_told(RingCommand::Begin(unit)), Done);
    assert_eq!(rings.is_told(RingCommand::Begin(unit)), Done);
    assert_eq!(rings.is_told(RingCommand::Begin(other)), Short);
    let table = BodyTable(2);
    assert_eq!(
        (rings.ring.unit(unit), rings.ring.unit(other)),
        (Some(table), None)
    );
    assert_eq!(rings.ring.open(), Some(BodyTable(1)));
    // A rotation skips the table of the temporary queue.
    assert_eq!(rings.is_told(RingCommand::Roll(BodyTable(1), Life(1))), Done);
    assert_eq!(rings.ring.open(), Some(BodyTable(3)));
    let (life, owner) = (Life(4), Owner(9));
    assert_eq!(rings.is_told(RingCommand::Fenced(table, life)), NotYet);
    assert_eq!(rings.is_told(RingCommand::Take(table, life, owner)), NotYet);
    assert_eq!(rings.is_told(RingCommand::Ended(table, other)), NotYet);
    assert_eq!(rings.is_told(RingCommand::Ended(table, unit)), Done);
    assert_eq!(rings.ring.unit(unit), None);
    assert_eq!(rings.is_told(RingCommand::Ended(table, unit)), NotYet);
    rings.now = UNUSED_MICROS;
    assert_eq!(rings.is_told(RingCommand::Take(table, life, owner)), Done);
    assert_eq!(
        rings.is_told(RingCommand::Emptied(table, owner, Emptied::Done)),
        Done
    );
    assert_eq!(rings.ring.tables()[&table], Phase::Free);
}

#[test]
fn a_table_goes_from_phase_to_phase_and_in_no_other_way() {
    use RingResponse::{Done, NotYet, Short};
    let mut rings = Rings {
        ring: Ring::absent(),
        now: 0,
    };
    let (one, two, owner, life) = (BodyTable(1), BodyTable(2), Owner(9), Life(1));
    assert_eq!((rings.ring.open(), rings.ring.next()), (None, Some(one)));
    assert_eq!(rings.is_told(RingCommand::Add(one)), Done);
    assert_eq!(rings.ring.open(), Some(one));
    assert_eq!(rings.is_told(RingCommand::Roll(one, life)), Short);
    assert_eq!(rings.is_told(RingCommand::Add(two)), Done);
    assert_eq!(rings.is_told(RingCommand::Add(two)), Done);
    assert_eq!(rings.is_told(RingCommand::Fenced(one, life)), NotYet);
    assert_eq!(rings.is_told(RingCommand::Roll(one, life)), Done);
    // A repeated command finds that its change is applied, so the next table stays open.
    assert_eq!(rings.is_told(RingCommand::Roll(one, life)), Done);
    assert_eq!(rings.ring.open(), Some(two));
    // A late command names an ended lifetime of the table, so it does not close the table that is
    // open now.
    assert_eq!(rings.is_told(RingCommand::Roll(two, life)), Done);
    assert_eq!(rings.ring.open(), Some(two));
    assert_eq!(rings.is_told(RingCommand::Take(one, life, owner)), NotYet);
    // The ring rejects facts about another lifetime of the table.
    assert_eq!(rings.is_told(RingCommand::Fenced(one, Life(7))), NotYet);
    assert_eq!(rings.is_told(RingCommand::Fenced(one, life)), Done);
    assert_eq!(
        rings.is_told(RingCommand::Take(one, life, owner)),
        NotYet,
        "it was referred to just now"
    );
    rings.now = UNUSED_MICROS;
    assert_eq!(rings.is_told(RingCommand::Take(one, Life(7), owner)), NotYet);
    assert_eq!(rings.is_told(RingCommand::Take(one, life, owner)), Done);
    assert_eq!(rings.is_told(RingCommand::Take(one, life, owner)), Done);
    assert_eq!(rings.is_told(RingCommand::Take(one, life, Owner(8))), NotYet);
    assert_eq!(
        rings.is_told(RingCommand::Emptied(one, Owner(8), Emptied::Done)),
        NotYet
    );
    assert_eq!(
        rings.is_told(RingCommand::Emptied(one, owner, Emptied::NotDone)),
        Done
    );
    assert_eq!(
        rings.is_told(RingCommand::Take(one, life, owner)),
        NotYet,
        "it is closed since now"
    );
    rings.now *= 2;
    assert_eq!(rings.is_told(RingCommand::Take(one, life, owner)), Done);
    assert_eq!(rings.is_told(RingCommand::Dropped(one)), NotYet);
    assert_eq!(
        rings.is_told(RingCommand::Emptied(one, owner, Emptied::Unknown)),
        Done
    );
    assert_eq!(rings.is_told(RingCommand::Dropped(one)), Done);
    assert_eq!(rings.is_told(RingCommand::Dropped(one)), Done);
    let open = Phase::Open {
        since: 0,
        life: Life(3),
    };
    assert_eq!(rings.ring.tables(), &BTreeMap::from([(two, open)]));
    // The id of a dropped table is never used again.
    assert_eq!(rings.is_told(RingCommand::Add(one)), Done);
    assert_eq!(
        (rings.ring.next(), rings.ring.tables().len()),
        (Some(BodyTable(3)), 1)
    );
    for table in 3..=MAX_TABLES as u32 + 1 {
        assert_eq!(rings.is_told(RingCommand::Add(BodyTable(table))), Done);
    }
    let next = rings.ring.next().expect("a number");
    assert_eq!(rings.is_told(RingCommand::Add(next)), RingResponse::Full);
    rings.ring.last = BodyTable(u32::MAX);
    assert_eq!(rings.ring.next(), None);
}
