//! Model of a view in buckets (partitions of key ranges): key ranges are split while a record moves
//! between them.
//!
//! Models of a split itself are in `recto_protocol::buckets`. This model assumes that splits work.
//! It checks view entries, which differ from other rows: their write timestamp is the version of
//! the record, not the time of the write.

use super::model::{Config, I1, I2, Script};
use super::reader::PAGES;
use super::store::{Request, Slot, Store, TinyKey};
use super::tiny::{ADDED, BY_PLACE, Tiny, TinyRequest, delete, move_to, note, put, record};
use super::usually;
use super::world::{Process, World};
use crate::views::row::{EntryKey, ViewNumber};
use crate::views::rules::Rule;

/// Cached range map (which bucket holds which keys) of a process: the step of each split, as the
/// process knows it.
pub(crate) type Steps = Vec<u8>;

/// Split that moves the rows of one key from bucket 0 to bucket 1.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Cut {
    key: TinyKey,
    step: u8,
    /// Oldest step that a process may still assume, because its cached range map has not expired.
    oldest: u8,
    /// Row that was read in bucket 0, and will be written to bucket 1; `None`: no row is being
    /// copied.
    copying: Option<Slot>,
}

/// Last step of a split. Bucket 1 is unused in step 0. It receives deletions from step 1, writes
/// from step 2, and is read from step 3. In step 4, bucket 0 receives no more writes.
const LEFT: u8 = 4;

fn read(step: u8) -> u8 {
    u8::from(step >= 3)
}

/// Returns the buckets that receive a put or a deletion in this step of a split.
fn takers(step: u8, is_put: bool) -> &'static [u8] {
    match (step, is_put) {
        (0, false) | (0 | 1, true) => &[0],
        (LEFT, true) => &[1],
        _ => &[0, 1],
    }
}

impl Cut {
    pub(super) fn new(key: &TinyKey) -> Self {
        Self {
            key: key.clone(),
            step: 0,
            oldest: 0,
            copying: None,
        }
    }

    fn may_go_on(&self) -> bool {
        self.step < LEFT
    }
}

impl Store {
    fn cut_of(&self, key: &TinyKey) -> Option<(usize, &Cut)> {
        let mut cuts = self.cuts.iter().enumerate();
        cuts.find(|(_, cut)| cut.key == *key)
    }

    /// Returns the present steps of all splits.
    pub(super) fn steps(&self) -> Steps {
        self.cuts.iter().map(|cut| cut.step).collect()
    }

    /// Returns the range map of a process after expired parts of it were read again: the step of
    /// each split.
    pub(super) fn living_or_read(&self, copy: &Steps) -> Steps {
        let cuts = self.cuts.iter().zip(copy);
        cuts.map(|(cut, step)| if *step >= cut.oldest { *step } else { cut.step })
            .collect()
    }

    /// Returns the buckets to which a process with this range map sends a put or a deletion of an
    /// entry.
    pub(super) fn takers(&self, key: &TinyKey, is_put: bool, copy: &Steps) -> &'static [u8] {
        let cut = self.cut_of(key);
        cut.map_or(&[0], |(index, _)| takers(copy[index], is_put))
    }

    /// Returns whether a writer with this range map that has written to `buckets` may report
    /// success.
    fn is_done(&self, key: &TinyKey, is_put: bool, copy: &Steps, buckets: &[u8]) -> bool {
        let Some((index, cut)) = self.cut_of(key) else {
            return true;
        };
        let lives = copy[index] >= cut.oldest;
        lives
            || takers(cut.step, is_put)
                .iter()
                .all(|bucket| buckets.contains(bucket))
    }

    /// Returns the bucket in which a key is read. If `oldest`, the reader has the oldest range map
    /// that has not expired.
    pub(super) fn reads(&self, key: &TinyKey, oldest: bool) -> u8 {
        let cut = self.cut_of(key);
        cut.map_or(0, |(_, cut)| read(if oldest { cut.oldest } else { cut.step }))
    }

    fn goes_on(&mut self, index: usize) {
        let key = self.cuts[index].key.clone();
        let there = self.slot(&key, 0);
        let cut = &mut self.cuts[index];
        if let Some(row) = cut.copying.take() {
            cut.step += 1;
            self.copy_to(&key, 1, &row);
        } else if cut.oldest < cut.step {
            // Record that no process uses an older step of the split, before the next step begins.
            cut.oldest = cut.step;
        } else if cut.step == 2 {
            cut.copying = Some(there);
        } else {
            cut.step += 1;
        }
    }
}

/// Request that writes an entry (row in a view), and the buckets that receive it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Routed {
    request: Request,
    buckets: Vec<u8>,
}

/// Range maps and requests of a process that writes entries (rows in views).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Routes {
    /// Range map that the process had when it started to read the base row (row in the base table).
    pub(super) looked: Steps,
    /// Range map by which the process deletes entries (rows in views).
    removes: Steps,
    routed: Vec<Routed>,
    /// Requests that are not sent yet. The writer may pause before it sends them.
    pub(super) waiting: Vec<Request>,
}

impl Routes {
    pub(super) fn new(cuts: usize) -> Self {
        Self {
            looked: vec![0; cuts],
            ..Self::default()
        }
    }
}

impl World {
    /// Returns the indexes of the splits that can continue.
    pub(super) fn cuts_next(&self) -> impl Iterator<Item = usize> {
        let cuts = self.store.cuts.iter().enumerate();
        cuts.filter(|(_, cut)| cut.may_go_on()).map(|(index, _)| index)
    }

    pub(super) fn cut_goes_on(&mut self, index: usize) {
        self.store.goes_on(index);
    }

    /// Returns whether the process may read the range map before its next change, although its
    /// cached one has not expired.
    pub(super) fn may_read_directory(&self, config: &Config, p: u8) -> bool {
        let process = &self.processes[usize::from(p)];
        let has_more = usize::from(process.asked) < config.scripts[usize::from(p)].requests.len();
        process.write.is_none() && has_more && process.routes.looked != self.store.steps()
    }

    pub(super) fn looks(&mut self, p: u8) -> &mut Process {
        let process = &mut self.processes[usize::from(p)];
        process.routes.looked = self.store.living_or_read(&process.routes.looked);
        process
    }

    /// Sends the waiting requests of a process to the buckets that must receive them.
    pub(super) fn routes(&mut self, config: &Config, p: u8) {
        let now = self.store.steps();
        let routes = &mut self.processes[usize::from(p)].routes;
        let requests = std::mem::take(&mut routes.waiting);
        routes.removes = self.store.living_or_read(&routes.looked);
        if !config.rules().keeps(Rule::CopyBeforeRow) {
            routes.looked = now;
        }
        routes.routed.clear();
        for request in requests {
            let Some((key, is_put)) = request.entry() else {
                continue;
            };
            let copy = if is_put { &routes.looked } else { &routes.removes };
            let buckets = self.store.takers(key, is_put, copy).to_vec();
            let sent = buckets.iter().map(|bucket| (Some(p), request.to(*bucket)));
            self.sent.extend(sent);
            routes.routed.push(Routed { request, buckets });
        }
    }

    /// Handles the arrival of all requests of a process. Returns true if the entries count as
    /// written, and false if the key of a put belongs to another bucket now. `None`: deletions are
    /// sent again, to the right buckets.
    pub(super) fn is_written(&mut self, p: u8) -> Option<bool> {
        let now = self.store.steps();
        let Routes {
            looked,
            removes,
            mut routed,
            waiting,
        } = std::mem::take(&mut self.processes[usize::from(p)].routes);
        let mut undone = Vec::new();
        for (index, Routed { request, buckets }) in routed.iter().enumerate() {
            let Some((key, is_put)) = request.entry() else {
                continue;
            };
            let copy = if is_put { &looked } else { &removes };
            if !self.store.is_done(key, is_put, copy, buckets) {
                undone.push((index, is_put));
            }
        }
        let is_moved = undone.iter().any(|(_, is_put)| *is_put);
        let routes = &mut self.processes[usize::from(p)].routes;
        if is_moved || undone.is_empty() {
            let copy = if is_moved { now } else { looked };
            routes.looked = copy;
            return Some(!is_moved);
        }
        for (index, _) in undone {
            let there = &mut routed[index];
            let Some((key, is_put)) = there.request.entry() else {
                continue;
            };
            let buckets = self.store.takers(key, is_put, &now).to_vec();
            let sent = buckets.iter().map(|bucket| (Some(p), there.request.to(*bucket)));
            self.sent.extend(sent);
            there.buckets = buckets;
        }
        *routes = Routes {
            looked,
            removes: now,
            routed,
            waiting,
        };
        None
    }

    /// Returns whether an entry (row in a view) counts as written that was put by this range map.
    pub(super) fn is_put(&self, key: &TinyKey, copy: &Steps) -> bool {
        let buckets = self.store.takers(key, true, copy);
        self.store.is_done(key, true, copy, buckets)
    }
}

const fn at(view: ViewNumber, key: u8) -> TinyKey {
    EntryKey { view, key }
}

/// Returns a model in which writers change a record at place 1, while the ranges of these places
/// are split.
fn cutting(places: &[u8], scripts: &[&[TinyRequest]]) -> Config {
    Config {
        schema: Some(Tiny::new(1, &[BY_PLACE])),
        first: Some(record(1, None)),
        cuts: places.iter().map(|place| at(BY_PLACE, *place)).collect(),
        scripts: scripts.iter().map(|requests| Script::new(0, requests)).collect(),
        ..Config::default()
    }
}

/// Returns a model in which the first writer may die, and another process completes its changes.
fn dying(places: &[u8], scripts: &[&[TinyRequest]]) -> Config {
    let mut config = cutting(places, scripts);
    config.scripts.push(Script::default());
    Config {
        crashes: 1,
        sweeps: true,
        mortal: Some(0),
        ..config
    }
}

#[test]
fn an_entry_moves_between_pieces_that_are_both_cut() {
    let script = [move_to(2), move_to(1)];
    let config = cutting(&[1, 2], &[&script[..usize::from(usually(1, 2))]]);
    config.holds("moves, both are cut", &["all asked and quiet", "moved"]);
}

#[test]
fn two_writers_beside_a_cut() {
    cutting(&[2], &[&[move_to(2)], &[delete()]]).holds("two writers beside a cut", &["all asked and quiet"]);
}

#[test]
fn an_entry_that_is_put_again_where_it_stands() {
    let config = Config {
        losses: usually(0, 1),
        ..cutting(&[2], &[&[put(2, Some(1)), note(Some(2))]])
    };
    config.holds("put again where it stands", &["all asked and quiet", "moved"]);
}

#[test]
fn a_writer_dies_beside_a_cut() {
    let scripts = [&[move_to(2), move_to(3)][..], &[move_to(1)]];
    let config = dying(&[2], &scripts[..usize::from(usually(1, 2))]);
    config.holds("a writer dies beside a cut", &["all asked and quiet"]);
}

#[test]
fn a_request_comes_late_beside_a_cut() {
    let config = Config {
        losses: 1,
        ..cutting(&[2], &[&[move_to(2), move_to(3)]])
    };
    config.holds("a request comes late", &["all asked and quiet", "moved"]);
}

#[test]
fn pages_beside_a_cut() {
    let config = Config {
        reads: vec![2],
        ..cutting(&[2], &[&[move_to(2), move_to(1)]])
    };
    config.holds("pages beside a cut", &["all asked and quiet"]);
}

/// Returns a model in which a new view is filled while its ranges are split.
fn filling() -> Config {
    Config {
        later: Some(Tiny::new(2, &[BY_PLACE, ADDED])),
        cuts: vec![at(ADDED, 1)],
        ..cutting(&[], &[&[move_to(2)]])
    }
}

#[test]
fn a_view_is_filled_in_beside_a_cut() {
    filling().holds("filled in beside a cut", &["all asked and quiet", "ready"]);
}

#[test]
fn without_a_copy_from_before_the_row() {
    cutting(&[2], &[&[move_to(2)], &[delete()]]).breaks(Rule::CopyBeforeRow, &[I1]);
    filling().breaks(Rule::CopyBeforeRow, &[I1]);
}

#[test]
fn without_writing_what_came_to_lie_elsewhere() {
    cutting(&[2], &[&[move_to(2)]]).breaks(Rule::MovedIsNotWritten, &[I1, I2]);
}

#[test]
fn without_reading_the_row_again() {
    cutting(&[2], &[&[move_to(2)], &[delete()]]).breaks(Rule::MovedReadsRow, &[I1]);
}

#[test]
fn without_resolving_the_newer_row() {
    let config = cutting(&[2], &[&[move_to(2)], &[delete()]]);
    config.breaks(Rule::NewerRowIsResolved, &[I1, I2, PAGES]);
}
