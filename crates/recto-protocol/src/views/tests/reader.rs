//! Models of a reader that verifies view entries against base rows, while the record is written.

use stateright::Checker as _;

use super::model::{Config, I1, I2, Script};
use super::store::{Request, TinyFound, TinyKey, TinyRow};
use super::tiny::{BY_PLACE, Tiny, delete, expiring, insert, move_to, note, record};
use super::world::World;
use crate::views::judge::{BaseRead, Mend, Seen, Verdict, judge_by, remove_by};
use crate::views::row::{EntryKey, Version};
use crate::views::rules::{Rule, Rules};

pub(crate) const PAGES: &str = "a page shows what stays, and nothing that is not there";

/// Time of the reader's wall clock, which is ahead of the writers' clocks.
const CLOCK: i64 = 20;

/// Reader that reads one key of a view after the other, and verifies the entry that it finds.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Reader {
    keys_read: u8,
    seen: Option<Seen<u8, Option<u8>>>,
    found: Option<TinyFound>,
    /// True if the record has been at `key`, in an acknowledged version, since the reader started
    /// to read the key.
    stays: bool,
    /// Key that is being read. `stood` is true if the record was there at any time since the start
    /// of the read.
    key: u8,
    stood: bool,
}

/// Step of the reader: it reads the entry (row in a view), and then the base row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Reading {
    Entry,
    Base,
    /// Reads the base row (row in the base table) without serial consistency, and misses the last
    /// conditional write.
    BaseMissing,
}

impl Reader {
    /// Records that a conditional write has changed the record.
    pub(crate) fn sees_change(&mut self, before: Option<&TinyRow>, after: &TinyRow) {
        let place = |row: &TinyRow| row.record.map(|record| record.place);
        self.stays &= before.and_then(place) == place(after);
        self.stood |= place(after) == Some(self.key);
    }

    fn is_amid(&self) -> bool {
        self.seen.is_some() || self.found.is_some()
    }
}

impl World {
    /// Returns the possible next steps of the reader.
    pub(crate) fn reads_next(&self, config: &Config) -> Vec<Reading> {
        if self.key_read(config).is_none() {
            return Vec::new();
        }
        let base_first = !config.rules().keeps(Rule::BaseAfterEntry);
        let reads_base = if base_first {
            self.reader.found.is_none()
        } else {
            self.reader.seen.is_some()
        };
        match reads_base {
            false => vec![Reading::Entry],
            true if self.store.missed.is_some() => vec![Reading::Base, Reading::BaseMissing],
            true => vec![Reading::Base],
        }
    }

    fn key_read(&self, config: &Config) -> Option<TinyKey> {
        let key = *config.reads.get(self.reader.keys_read as usize)?;
        Some(EntryKey { view: BY_PLACE, key })
    }

    pub(crate) fn page_reads(&mut self, config: &Config, reading: Reading) {
        let Some(key) = self.key_read(config) else { return };
        if !self.reader.is_amid() {
            let stands = |row: Option<&TinyRow>| {
                let record = row.and_then(|row| row.record);
                record.is_some_and(|record| record.place == key.key)
            };
            let is_there = stands(self.store.base.as_ref());
            let missed = self.store.missed.as_ref();
            self.reader.key = key.key;
            self.reader.stood = is_there || stands(missed.and_then(|missed| missed.row.as_ref()));
            self.reader.stays = is_there && self.store.is_exact(config.schema_of(1));
        }
        match reading {
            Reading::Entry => match self.store.seen(&key) {
                Some(seen) => self.reader.seen = Some(seen),
                None => return self.key_is_read(Verdict::Stale),
            },
            Reading::Base => self.reader.found = Some(self.store.read()),
            Reading::BaseMissing => self.reader.found = self.store.read_missing(),
        }
        self.judges(config);
    }

    fn judges(&mut self, config: &Config) {
        let (Some(seen), Some(found)) = (&self.reader.seen, &self.reader.found) else {
            return;
        };
        let (rules, schema) = (config.rules(), config.schema_of(1));
        let mut verdict = judge_by(seen, found.row.as_ref(), BaseRead::Quorum, schema, CLOCK, rules);
        if verdict == Verdict::Unknown {
            let row = self.store.base.as_ref();
            verdict = judge_by(seen, row, BaseRead::Serial, schema, CLOCK, rules);
        }
        if verdict == Verdict::Stale {
            let Mend::Remove(key, stamp) = remove_by::<Tiny>(seen, CLOCK, rules) else {
                return;
            };
            let buckets = self.store.takers(&key, false, &self.store.steps());
            let removals = buckets
                .iter()
                .map(|bucket| (None, Request::Remove(key.clone(), stamp, *bucket)));
            self.sent.extend(removals);
        }
        self.key_is_read(verdict);
    }

    fn key_is_read(&mut self, verdict: Verdict) {
        let is_dropped = !matches!(verdict, Verdict::True | Verdict::Expired);
        if (self.reader.stays && is_dropped) || (verdict == Verdict::True && !self.reader.stood) {
            self.broken = Some(PAGES);
        }
        self.reader = Reader {
            keys_read: self.reader.keys_read + 1,
            ..Reader::default()
        };
    }
}

fn reading(requests: &[super::tiny::TinyRequest]) -> Config {
    Config {
        schema: Some(Tiny::new(1, &[BY_PLACE])),
        first: Some(record(1, None)),
        scripts: vec![Script::new(0, requests)],
        reads: vec![1, 2, 1],
        ..Config::default()
    }
}

#[test]
fn pages_beside_moves() {
    let config = Config {
        losses: 1,
        ..reading(&[move_to(2), note(Some(1)), move_to(1)])
    };
    config.holds("pages beside moves", &["all asked and quiet"]);
}

#[test]
fn pages_beside_crashes() {
    let mut config = Config {
        crashes: 1,
        sweeps: true,
        ..reading(&[move_to(2)])
    };
    config.scripts.push(Script::new(0, &[move_to(1)]));
    config.holds("pages beside crashes", &["all asked and quiet"]);
}

#[test]
fn pages_beside_deletes() {
    let config = Config {
        losses: 1,
        ..reading(&[delete(), insert(1), move_to(2)])
    };
    config.holds("pages beside deletes", &["all asked and quiet"]);
}

#[test]
fn without_the_base_after_the_entry() {
    let mut config = reading(&[delete(), insert(1)]);
    // Disable a second rule, which would hide the fault: it keeps a reader from deciding about an
    // entry that is newer than its base row.
    config.without[1] = Some(Rule::NewerEntryIsUnknown);
    config.breaks(Rule::BaseAfterEntry, &[I1, PAGES]);
}

#[test]
fn without_the_stamp_of_what_is_removed() {
    let config = reading(&[move_to(2), move_to(1)]);
    config.breaks(Rule::RemoveAtOwnStamp, &[I1]);
}

/// Checks that pages are correct if the record has expired on the reader's clock, which is ahead of
/// others.
#[test]
fn pages_of_what_expires_by_the_clock_of_who_reads() {
    let config = Config {
        losses: 1,
        ..reading(&[expiring(1, 10)])
    };
    config.holds("pages, a clock ahead", &["all asked and quiet"]);
}

#[test]
fn without_leaving_what_has_expired() {
    reading(&[expiring(1, 10)]).breaks(Rule::ExpiredIsLeft, &[I1]);
}

/// Checks that `NewerEntryIsUnknown` is only a safeguard: no model breaks without it. An entry is
/// written after the outcome of its conditional write is known, so a base row that is read after
/// the entry is not older.
#[test]
fn entries_newer_than_their_base() {
    let mut config = Config {
        losses: 2,
        crashes: 1,
        sweeps: true,
        ..reading(&[move_to(2)])
    };
    config.without = [Some(Rule::NewerEntryIsUnknown), None];
    config.scripts.push(Script::default());
    config.reads = vec![2];
    config.holds("entries newer than their base", &["all asked and quiet"]);
}

/// Returns a model without a record, with an orphan (entry without a record) of this version, and a
/// reader that removes it.
fn orphan(version: i64, requests: &[super::tiny::TinyRequest]) -> Config {
    let mut config = reading(requests);
    config.first = None;
    config.orphan = Some((2, Version(version)));
    config.scripts[0].clock = 10;
    config.reads = vec![2, 2];
    config
}

/// Checks that old orphans (entries without a record) can be removed while the record changes.
/// `repair` does so for many orphans, without a new version of the record, and without the serial
/// read that `NewerEntryIsUnknown` requires.
#[test]
fn old_orphans_are_removed_beside_changes() {
    for without in [None, Some(Rule::NewerEntryIsUnknown)] {
        let config = Config {
            losses: 2,
            without: [without, None],
            ..orphan(8, &[insert(2), move_to(1), move_to(2)])
        };
        config.holds("old orphans", &["all asked and quiet", "orphan removed"]);
        let config = Config {
            losses: 1,
            without: [without, None],
            ..orphan(8, &[insert(1), delete(), insert(2)])
        };
        config.holds(
            "old orphans and deletes",
            &["all asked and quiet", "orphan removed"],
        );
    }
}

/// Checks that old orphans can be removed while another process completes the change of a crashed
/// writer.
#[test]
fn old_orphans_are_removed_beside_crashes() {
    let mut config = Config {
        crashes: 1,
        losses: 1,
        sweeps: true,
        without: [Some(Rule::NewerEntryIsUnknown), None],
        ..orphan(8, &[insert(2), move_to(1)])
    };
    config.scripts.push(Script::default());
    config.holds(
        "old orphans and crashes",
        &["all asked and quiet", "orphan removed"],
    );
}

/// Checks that the removal of a young orphan needs a new version of the record. Otherwise, a
/// process whose clock is behind could insert a record whose entry has an older timestamp than the
/// deletion, which hides it.
#[test]
fn a_young_orphan_can_hide_a_record() {
    let checker = orphan(12, &[insert(2)]).check();
    assert!(checker.discovery(I2).is_some());
}

#[test]
fn the_default_includes_all_rules() {
    assert_eq!(Rules::default(), Rules::without([None, None]));
}
