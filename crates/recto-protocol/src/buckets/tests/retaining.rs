//! Model of retention: rows beyond a retention bound, a kept row, a reader, and a writer of an old
//! row. A process deletes the old rows, and another one continues if the first dies. A further
//! process may join the old range with the kept range.

use std::collections::BTreeSet;

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::model::{by_seconds, is_broken, told};
use super::store::{put_window, window_of};
use super::{SAMPLING, directory, piece};
use crate::buckets::rules::{Rule, Rules};
use crate::buckets::{
    Bucket, Clock, Decision, Directory, DirectoryCopy, Floor, Join, Kept, Key, Operation, Piece, Protocol,
    ReadAction, ReadEvent, Reading, RetainAction, RetainEvent, Retaining, Roles, Room, Slice, Span,
    SplitAction, SplitEvent, Splitting, Stays, WriteAction, WriteEvent, Writing,
};

const WHOLE: &str = "a page shows all rows of a bucket that goes, or none";
const KEPT: &str = "a page shows what is kept";
const CLEAN: &str = "nothing is left in a bucket that nobody knows of";
const GONE: &str = "the bucket goes";
const LATE: &str = "a write is refused";

/// Duration of a model, in time steps: two waits for the expiry of cached range maps.
const TICKS: u64 = 8;
/// Duration of a model with a join, in time steps: four waits for the expiry of cached range maps.
const TICKS_OF_JOIN: u64 = 12;
/// Keys of the rows at first: two old ones, and one that is kept. `WRITTEN` is the key of another
/// old row.
const ROWS: [&[u8]; 3] = [b"a", b"b", b"m"];
const WRITTEN: &[u8] = b"c";
const FLOOR: &[u8] = b"k";
/// Edge of the window that the deleting process sees, in models with windows.
const WINDOW: &[u8] = b"l";

#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is true or not for itself")]
struct Drops {
    without: Option<Rule>,
    also_without: Option<Rule>,
    /// True if the newest rows have the smallest keys.
    is_newest_first: bool,
    /// True if the kept row is still read in the bucket of the old rows.
    is_being_cut: bool,
    /// Unfinished split whose last range is outside the window of the deleting process; `None`: the
    /// process sees the whole range map.
    behind_window: Option<Stays>,
    crashes: u8,
    pages: bool,
    writes: bool,
    /// True if a process joins all ranges.
    joins: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    now: u64,
    directory: Directory,
    rows: BTreeSet<(Bucket, Key)>,
    /// Deleted spans of buckets. Rows that arrive there later are invisible.
    dropped: BTreeSet<(Bucket, Span)>,
    page: Page,
    write: Write,
    droppers: Vec<Dropper>,
    joiner: Option<Joiner>,
    crashes: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Page {
    None,
    /// The reader will read the range map. The rows that it has read are valid if the range map is
    /// unchanged.
    Before(Reading, BTreeSet<Key>),
    Reading {
        machine: Reading,
        slices: Vec<Slice>,
        next: usize,
        seen: BTreeSet<Key>,
    },
    Done(BTreeSet<Key>),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Write {
    None,
    /// The writer will read the range map (which bucket holds which keys).
    Before(Writing),
    /// The write was sent to these buckets, and has not arrived.
    Sent(Writing, BTreeSet<Bucket>),
    Acknowledged,
    Refused,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Dropper {
    machine: Retaining,
    action: RetainAction,
    /// Time step in which the current wait ends.
    until: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Joiner {
    machine: Splitting,
    action: SplitAction,
    /// Time step in which the current wait ends.
    until: u64,
}

impl State {
    fn is_dropped(&self, bucket: Bucket, key: &[u8]) -> bool {
        let mut dropped = self.dropped.iter();
        dropped.any(|(of, span)| *of == bucket && span.has(key))
    }

    /// Writes rows to buckets, except where their keys are deleted.
    fn put(&mut self, rows: impl IntoIterator<Item = (Bucket, Key)>) {
        for (bucket, key) in rows {
            if !self.is_dropped(bucket, &key) {
                self.rows.insert((bucket, key));
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Happening {
    Tick,
    PageGoesOn,
    WriteGoesOn,
    DropperGoesOn(usize),
    DropperDies,
    JoinerGoesOn,
}

impl Drops {
    fn new() -> Self {
        Self {
            without: None,
            also_without: None,
            is_newest_first: false,
            is_being_cut: false,
            behind_window: None,
            crashes: 0,
            pages: true,
            writes: false,
            joins: false,
        }
    }

    fn protocol(&self) -> Protocol {
        Protocol {
            rules: Rules::without([self.without, self.also_without]),
            ..by_seconds(None)
        }
    }

    /// Returns a key in the order of the model: with all bits inverted if the newest rows come
    /// first.
    fn key(&self, key: &[u8]) -> Key {
        if self.is_newest_first {
            key.iter().map(|byte| !byte).collect()
        } else {
            key.to_vec()
        }
    }

    fn floor(&self) -> Floor {
        Floor {
            at: self.key(FLOOR),
            kept: if self.is_newest_first {
                Kept::Before
            } else {
                Kept::After
            },
        }
    }

    /// Returns a range map with three ranges that were split off bucket 0. The middle one has its
    /// own bucket. The others are still read in bucket 0, and one of them will leave it. The range
    /// outside the window has the kept row.
    fn stored_behind_window(&self, stays: Stays) -> Directory {
        let moving = |bucket| Roles {
            deletes: [Bucket(bucket)].into(),
            ..Roles::of(Bucket(0))
        };
        let (oldest, newest) = match stays {
            Stays::First => (Roles::of(Bucket(0)), moving(2)),
            Stays::Last => (moving(2), Roles::of(Bucket(0))),
        };
        let mut roles = [oldest, Roles::of(Bucket(1)), newest];
        let mut edges = [self.key(FLOOR), self.key(WINDOW)];
        if self.is_newest_first {
            roles.reverse();
            edges.reverse();
        }
        let starts = std::iter::once(Key::new()).chain(edges);
        let pieces = starts.zip(roles).map(|(start, roles)| Piece {
            roles,
            ..piece(&start, 0)
        });
        Directory {
            life_ms: 2,
            longest_ms: 2,
            ..directory(3, pieces.collect())
        }
    }

    /// Returns the window of the range map (which bucket holds which keys) that the deleting
    /// process sees.
    fn window(&self, directory: &Directory) -> Directory {
        if self.behind_window.is_none() {
            return directory.clone();
        }
        let edge = self.key(WINDOW);
        let span = if self.is_newest_first {
            Span {
                start: edge,
                end: None,
            }
        } else {
            Span {
                start: Key::new(),
                end: Some(edge),
            }
        };
        window_of(directory, Some(&span))
    }

    fn stored(&self) -> Directory {
        if let Some(stays) = self.behind_window {
            return self.stored_behind_window(stays);
        }
        let (old, kept) = if self.is_newest_first { (1, 0) } else { (0, 1) };
        let mut pieces = vec![piece(b"", 0), piece(&self.key(FLOOR), 1)];
        if self.is_being_cut {
            let kept = &mut pieces[usize::from(!self.is_newest_first)];
            kept.roles.read = Bucket(old);
            kept.roles.writes = [Bucket(2)].into();
        } else {
            pieces[usize::from(!self.is_newest_first)].roles.read = Bucket(kept);
        }
        Directory {
            life_ms: 2,
            longest_ms: 2,
            ..directory(3, pieces)
        }
    }

    fn old_bucket(&self) -> Bucket {
        Bucket(u64::from(self.is_newest_first && self.behind_window.is_none()))
    }

    fn clock(state: &State) -> Clock {
        Clock {
            boot_ms: 10 + state.now,
            wall_ms: 10,
        }
    }

    fn copy(&self, state: &State) -> DirectoryCopy {
        let now = Self::clock(state);
        DirectoryCopy::new(state.directory.clone().into(), now, now, self.protocol())
    }

    fn dropper(&self) -> Dropper {
        let mut machine = Retaining::new(self.floor(), self.protocol());
        let action = machine.step(RetainEvent::Begin);
        Dropper {
            machine,
            action,
            until: 0,
        }
    }

    fn page_goes_on(&self, state: &mut State) {
        let now = Self::clock(state);
        state.page = match std::mem::replace(&mut state.page, Page::None) {
            Page::None => {
                let mut machine = Reading::new(Span::all(), false, self.protocol());
                let action = machine.step(ReadEvent::Begin, now);
                page_does(machine, action, BTreeSet::new())
            }
            Page::Before(mut machine, seen) => {
                let action = machine.step(ReadEvent::Copy(self.copy(state)), now);
                page_does(machine, action, seen)
            }
            Page::Reading {
                mut machine,
                slices,
                next,
                mut seen,
            } => {
                let key = self.key(ROWS[next]);
                let slice = slices.iter().find(|slice| slice.span.has(&key));
                if slice.is_some_and(|slice| state.rows.contains(&(slice.bucket, key.clone()))) {
                    seen.insert(ROWS[next].to_vec());
                }
                let next = next + 1;
                if next < ROWS.len() {
                    Page::Reading {
                        machine,
                        slices,
                        next,
                        seen,
                    }
                } else {
                    let action = machine.step(ReadEvent::Read(slices.len()), now);
                    page_does(machine, action, seen)
                }
            }
            done @ Page::Done(_) => done,
        };
    }

    fn write_goes_on(&self, state: &mut State) {
        let now = Self::clock(state);
        let (mut machine, event) = match std::mem::replace(&mut state.write, Write::None) {
            Write::None => {
                let machine = Writing::new(self.key(WRITTEN), Operation::Put, None, self.protocol());
                (machine, WriteEvent::Begin)
            }
            Write::Before(machine) => (machine, WriteEvent::Copy(self.copy(state))),
            Write::Sent(machine, buckets) => {
                let key = self.key(WRITTEN);
                state.put(buckets.iter().map(|bucket| (*bucket, key.clone())));
                (machine, WriteEvent::Written)
            }
            over => {
                state.write = over;
                return;
            }
        };
        let mut actions: Vec<WriteAction> = machine.step(event, now);
        state.write = loop {
            let Some(action) = actions.pop() else {
                break Write::Refused;
            };
            match action {
                WriteAction::Take | WriteAction::Read => break Write::Before(machine),
                WriteAction::Stamp => actions.extend(machine.step(WriteEvent::Stamped(1), now)),
                WriteAction::Write { buckets, .. } => break Write::Sent(machine, buckets),
                WriteAction::Acknowledge(_) => break Write::Acknowledged,
                WriteAction::Refuse(_) => break Write::Refused,
                WriteAction::Remove { .. } => {}
            }
        };
    }

    fn dropper_goes_on(&self, state: &mut State, index: usize) -> Option<()> {
        let now = state.now;
        let window = self.window(&state.directory);
        let dropper = &mut state.droppers[index];
        let event = match &dropper.action {
            RetainAction::Over => return None,
            RetainAction::Read => RetainEvent::Read(window),
            RetainAction::Wait { .. } if now < dropper.until => return None,
            RetainAction::Wait { .. } => RetainEvent::Waited,
            RetainAction::Cas { expected, put, .. } if *expected == state.directory.version => {
                state.directory = put_window(&state.directory, put);
                RetainEvent::Decided(Decision::Applied)
            }
            RetainAction::Cas { .. } => RetainEvent::Decided(Decision::Refused),
            RetainAction::Delete(hidden) => {
                let is_hidden = |(bucket, key): &(Bucket, Key)| {
                    let mut hidden = hidden.iter();
                    hidden.any(|(of, span)| of == bucket && span.has(key))
                };
                state.rows.retain(|row| !is_hidden(row));
                state.dropped.extend(hidden.iter().cloned());
                RetainEvent::Deleted
            }
        };
        dropper.action = dropper.machine.step(event);
        if let RetainAction::Wait { ms } = dropper.action {
            dropper.until = now + ms;
        }
        Some(())
    }

    fn joiner(&self) -> Joiner {
        let stored = self.stored();
        let pieces = stored.pieces.iter();
        let join = Join {
            pieces: pieces
                .map(|piece| (piece.start.clone(), piece.roles.read))
                .collect(),
            sampling: SAMPLING,
            figures: Vec::new(),
        };
        let machine = Splitting::new([], true, Room::default(), self.protocol());
        let mut machine = machine.with_joins([join]);
        let action = machine.step(SplitEvent::Begin);
        Joiner {
            machine,
            action,
            until: 0,
        }
    }

    fn joiner_goes_on(state: &mut State) -> Option<()> {
        let now = state.now;
        let mut joiner = state.joiner.take()?;
        let event = match &joiner.action {
            SplitAction::Over => return None,
            SplitAction::Read => SplitEvent::Read(state.directory.clone()),
            SplitAction::MarkRoot => SplitEvent::RootMarked,
            SplitAction::Wait { .. } if now < joiner.until => return None,
            SplitAction::Wait { .. } => SplitEvent::Waited,
            SplitAction::Cas { expected, put } if *expected == state.directory.version => {
                state.directory = put.clone();
                SplitEvent::Decided(Decision::Applied)
            }
            SplitAction::Cas { .. } => SplitEvent::Decided(Decision::Refused),
            SplitAction::Copy(copies) => {
                for copying in copies {
                    let is_copied =
                        |(bucket, key): &&(Bucket, Key)| *bucket == copying.from && copying.span.has(key);
                    let keys: Vec<Key> = state
                        .rows
                        .iter()
                        .filter(is_copied)
                        .map(|(_, key)| key.clone())
                        .collect();
                    state.put(keys.into_iter().map(|key| (copying.to, key)));
                }
                SplitEvent::Copied
            }
        };
        joiner.action = joiner.machine.step(event);
        if let SplitAction::Wait { ms } = joiner.action {
            joiner.until = now + ms;
        }
        state.joiner = Some(joiner);
        Some(())
    }

    fn holds(self, what: &str) {
        let (is_being_cut, writes) = (self.is_being_cut, self.writes);
        let checker = self.checker().spawn_bfs().join();
        eprintln!("{what}: {} states", checker.unique_state_count());
        for name in [WHOLE, KEPT, CLEAN] {
            if let Some(path) = checker.discovery(name) {
                panic!("{what}: {name}\n{}", told(path));
            }
        }
        assert!(is_being_cut || checker.discovery(GONE).is_some(), "{what}");
        assert!(!writes || checker.discovery(LATE).is_some(), "{what}");
    }

    fn breaks(mut self, rule: Rule, property: &'static str) {
        self.without = Some(rule);
        let found = HasDiscoveries::AnyOf([property].into());
        let checker = self.checker().finish_when(found).spawn_dfs().join();
        is_broken(rule, checker.discovery(property));
    }
}

fn page_does(machine: Reading, action: ReadAction, seen: BTreeSet<Key>) -> Page {
    match action {
        ReadAction::Slices { slices, .. } => Page::Reading {
            machine,
            slices,
            next: 0,
            seen: BTreeSet::new(),
        },
        ReadAction::Done => Page::Done(seen),
        ReadAction::Take | ReadAction::Read => Page::Before(machine, seen),
    }
}

impl Model for Drops {
    type State = State;
    type Action = Happening;

    fn init_states(&self) -> Vec<State> {
        let kept = if self.is_being_cut || self.behind_window.is_some() {
            self.old_bucket()
        } else {
            Bucket(1 - self.old_bucket().0)
        };
        let buckets = [self.old_bucket(), self.old_bucket(), kept];
        let rows = buckets.into_iter().zip(ROWS);
        vec![State {
            now: 0,
            directory: self.stored(),
            rows: rows.map(|(bucket, key)| (bucket, self.key(key))).collect(),
            dropped: BTreeSet::new(),
            page: Page::None,
            write: Write::None,
            droppers: vec![self.dropper()],
            joiner: self.joins.then(|| self.joiner()),
            crashes: self.crashes,
        }]
    }

    fn actions(&self, state: &State, happenings: &mut Vec<Happening>) {
        if self.joins {
            happenings.push(Happening::JoinerGoesOn);
        }
        let ticks = if self.joins { TICKS_OF_JOIN } else { TICKS };
        if state.now < ticks {
            happenings.push(Happening::Tick);
        }
        if self.pages && !matches!(state.page, Page::Done(_)) {
            happenings.push(Happening::PageGoesOn);
        }
        if self.writes && !matches!(state.write, Write::Acknowledged | Write::Refused) {
            happenings.push(Happening::WriteGoesOn);
        }
        happenings.extend((0..state.droppers.len()).map(Happening::DropperGoesOn));
        if state.crashes > 0 {
            happenings.push(Happening::DropperDies);
        }
    }

    fn next_state(&self, state: &State, happening: Happening) -> Option<State> {
        let mut next = state.clone();
        match happening {
            Happening::Tick => next.now += 1,
            Happening::PageGoesOn => self.page_goes_on(&mut next),
            Happening::WriteGoesOn => self.write_goes_on(&mut next),
            Happening::DropperGoesOn(index) => self.dropper_goes_on(&mut next, index)?,
            Happening::JoinerGoesOn => Self::joiner_goes_on(&mut next)?,
            Happening::DropperDies => {
                next.crashes -= 1;
                next.droppers = vec![self.dropper()];
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        fn seen(state: &State) -> Option<&BTreeSet<Key>> {
            match &state.page {
                Page::Done(seen) => Some(seen),
                _ => None,
            }
        }
        vec![
            Property::always(WHOLE, |_, state| {
                seen(state).is_none_or(|seen| seen.contains(ROWS[0]) == seen.contains(ROWS[1]))
            }),
            Property::always(KEPT, |_, state| {
                seen(state).is_none_or(|seen| seen.contains(ROWS[2]))
            }),
            Property::always(CLEAN, |model: &Self, state: &State| {
                let (old, is_windowed) = (model.old_bucket(), model.behind_window.is_some());
                let floor = state.directory.floor.as_ref();
                let names_old = |piece: &Piece| {
                    let mut further = piece.roles.further();
                    piece.roles.read == old || (model.joins && further.any(|bucket| bucket == old))
                };
                let mut named = state.directory.spans().filter(|(_, piece)| names_old(piece));
                let is_named =
                    named.any(|(span, _)| !is_windowed || floor.is_none_or(|floor| floor.hides_all(&span)));
                let is_left = |(bucket, key): &(Bucket, Key)| {
                    *bucket == old && (!is_windowed || floor.is_some_and(|floor| floor.hides(key)))
                };
                is_named || !state.rows.iter().any(is_left)
            }),
            Property::sometimes(GONE, |model: &Self, state: &State| {
                let over = state
                    .droppers
                    .iter()
                    .all(|dropper| dropper.action == RetainAction::Over);
                let ranges = if model.behind_window.is_some() { 2 } else { 1 };
                let mut dropped = state.dropped.iter();
                over && dropped.any(|(bucket, _)| *bucket == model.old_bucket())
                    && state.directory.pieces.len() == ranges
            }),
            Property::sometimes(LATE, |_, state: &State| state.write == Write::Refused),
        ]
    }
}

#[test]
fn drops_old_buckets_as_a_whole() {
    for is_newest_first in [false, true] {
        let model = Drops {
            is_newest_first,
            ..Drops::new()
        };
        model.holds("what is too old");
    }
}

#[test]
fn another_process_continues_a_drop() {
    let model = Drops {
        crashes: 1,
        writes: true,
        pages: false,
        ..Drops::new()
    };
    model.holds("who drops dies, with a late writer");
}

#[test]
fn a_writer_with_an_old_copy() {
    for is_newest_first in [false, true] {
        let model = Drops {
            is_newest_first,
            writes: true,
            ..Drops::new()
        };
        model.holds("a writer below the floor");
    }
}

#[test]
fn keeps_a_bucket_that_is_being_split() {
    for is_newest_first in [false, true] {
        let model = Drops {
            is_being_cut: true,
            is_newest_first,
            ..Drops::new()
        };
        model.holds("a cut under way");
    }
}

/// Checks that a process that sees only a window of the range map keeps the rows of a bucket which
/// a range outside the window still reads.
#[test]
fn keeps_rows_behind_the_window() {
    for is_newest_first in [false, true] {
        for stays in [Stays::First, Stays::Last] {
            let model = Drops {
                behind_window: Some(stays),
                is_newest_first,
                writes: true,
                ..Drops::new()
            };
            model.holds("a range behind the window");
        }
    }
}

#[test]
fn without_hiding_before_dropping() {
    Drops::new().breaks(Rule::HiddenBeforeDropped, WHOLE);
}

#[test]
fn without_a_wait_before_dropping() {
    Drops::new().breaks(Rule::WaitBeforeDropping, WHOLE);
}

#[test]
fn without_dropping_before_forgetting() {
    Drops::new().breaks(Rule::DroppedBeforeForgotten, CLEAN);
}

#[test]
fn without_sparing_what_is_shared() {
    for is_newest_first in [false, true] {
        for stays in [Stays::First, Stays::Last] {
            let model = Drops {
                behind_window: Some(stays),
                is_newest_first,
                ..Drops::new()
            };
            model.breaks(Rule::SharedBucketsStay, KEPT);
        }
    }
}

/// Returns a model in which a process joins the old range with the kept range at any time.
fn joined() -> Drops {
    Drops {
        joins: true,
        ..Drops::new()
    }
}

#[test]
fn a_join_across_the_retention_bound() {
    joined().holds("a join across the retention bound");
}

#[test]
#[ignore = "slow: a model with many states, a minute"]
fn a_join_across_the_retention_bound_newest_first() {
    let model = Drops {
        is_newest_first: true,
        ..joined()
    };
    model.holds("a join across the retention bound, newest first");
}

/// Checks that one of these rules suffices: shared buckets are not deleted as a whole, or old
/// ranges are not joined.
#[test]
#[ignore = "slow: models with many states, minutes"]
fn joins_need_one_of_two_retention_rules() {
    for rule in [Rule::JoinedAboveFloor, Rule::SharedBucketsStay] {
        let model = Drops {
            without: Some(rule),
            ..joined()
        };
        model.holds("a join with one of two rules");
    }
}

#[test]
fn without_joining_only_what_is_kept() {
    for is_newest_first in [false, true] {
        let model = Drops {
            is_newest_first,
            also_without: Some(Rule::SharedBucketsStay),
            ..joined()
        };
        model.breaks(Rule::JoinedAboveFloor, KEPT);
    }
}

/// Returns the deletion that a process starts when it finds this range map (which bucket holds
/// which keys).
fn deletion(mut machine: Retaining, found: Directory) -> RetainAction {
    machine.step(RetainEvent::Begin);
    let wait = machine.step(RetainEvent::Read(found));
    assert!(matches!(wait, RetainAction::Wait { .. }));
    machine.step(RetainEvent::Waited)
}

#[test]
fn deletes_whole_buckets_only_if_they_are_unshared() {
    let floor = Floor {
        at: b"c".to_vec(),
        kept: Kept::After,
    };
    let whole = Directory {
        floor: Some(floor.clone()),
        ..directory(3, vec![piece(b"", 0), piece(b"c", 1)])
    };
    let window = Directory {
        end: Some(b"f".to_vec()),
        ..whole.clone()
    };
    let later = Directory {
        pieces: vec![piece(b"a", 0), piece(b"c", 1)],
        ..whole.clone()
    };
    let mut shared = whole.clone();
    shared.pieces[1].roles.old = [Bucket(0)].into();
    let hidden = floor.hidden_span();
    let protocol = Protocol::default();
    for (found, span) in [
        (&whole, Span::all()),
        (&window, hidden.clone()),
        (&later, hidden.clone()),
        (&shared, hidden),
    ] {
        let deleted = deletion(Retaining::new(floor.clone(), protocol), found.clone());
        assert_eq!(
            deleted,
            RetainAction::Delete(vec![(Bucket(0), span)]),
            "{found:?}"
        );
        // Each time bucket belongs to one range, so a window is enough to delete the whole bucket.
        let deleted = deletion(Retaining::of_time_buckets(floor.clone(), protocol), found.clone());
        assert_eq!(deleted, RetainAction::Delete(vec![(Bucket(0), Span::all())]));
    }
}
