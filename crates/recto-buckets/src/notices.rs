//! Queue of notices: requests for work in partitions, such as splits of buckets. Reads and writes
//! add notices, and the splitter handles the notices.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use recto_protocol::buckets::limits::LONG_LIFE_MS;
use recto_protocol::buckets::{Bucket, Directory, Key};
use tokio::sync::Notify;

use crate::limits::{MAX_CLEARINGS, MAX_NOTICES, MAX_TAKEN};
use crate::place::{Place, PlaceId};

/// Reason why a partition may need work (a split, or cleanup after a split).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Notice {
    /// The bucket received a sampled row, or may be too large for another reason, so it may need a
    /// split.
    Grown(Bucket),
    /// A split is under way, and may be unfinished.
    HalfDone,
    /// Old buckets remain after a split, and must be removed.
    ToClear,
    /// Cached range maps of the partition have a short lifetime although no split is under way. The
    /// lifetime can be raised.
    Calm,
    /// A page read several buckets for few rows, so that their key ranges may be joined, or the entries of empty time
    /// buckets removed.
    Sparse,
    /// A page passed many tombstones in a bucket, so that a new bucket may replace it.
    Tombstones,
}

/// Kind of a job. A process does at most one job of each kind at a time in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Cutting,
    Clearing,
    Calming,
}

impl Notice {
    fn kind(&self) -> Kind {
        match self {
            Self::Grown(_) | Self::HalfDone | Self::Sparse | Self::Tombstones => Kind::Cutting,
            Self::ToClear => Kind::Clearing,
            Self::Calm => Kind::Calming,
        }
    }
}

/// Notice about a partition: a request for work there.
#[derive(Debug, Clone)]
pub(crate) struct Noticed {
    pub(crate) place: Arc<Place>,
    pub(crate) notice: Notice,
    /// Key in the key range that may need work. It selects the part of the range map to read.
    pub(crate) key: Key,
}

/// Queue of notices (requests for work in partitions), and the jobs under way.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    inner: Mutex<Inner>,
    came: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    waiting: BTreeMap<(PlaceId, Notice), Noticed>,
    /// Partitions in which a job runs now, each with the kind of the job.
    busy: BTreeSet<(PlaceId, Kind)>,
    /// Last notice that was returned. The search for the next notice begins after it, so that each notice gets its
    /// turn.
    after: Option<(PlaceId, Notice)>,
}

impl Notices {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, place: &Arc<Place>, notice: Notice, key: &[u8]) {
        // Time buckets are never split or joined, but the entries of empty time buckets are removed.
        if place.pieced.times.is_some() && notice != Notice::Sparse {
            return;
        }
        let mut inner = self.lock();
        let address = (Arc::clone(&place.id), notice.clone());
        if inner.waiting.len() >= MAX_NOTICES || inner.waiting.contains_key(&address) {
            return;
        }
        let noticed = Noticed {
            place: Arc::clone(place),
            notice,
            key: key.to_vec(),
        };
        inner.waiting.insert(address, noticed);
        drop(inner);
        self.came.notify_one();
    }

    /// Adds notices (requests for work) for the unfinished work that a range map shows. Each reader
    /// of a range map calls this method.
    pub(crate) fn look(&self, place: &Arc<Place>, directory: &Directory) {
        let is_hot = directory.version > 0 && directory.life_ms < LONG_LIFE_MS;
        if is_hot && !directory.is_being_cut() {
            self.add(place, Notice::Calm, &[]);
        }
        let first =
            |is: fn(&recto_protocol::buckets::Piece) -> bool| directory.pieces.iter().find(|piece| is(piece));
        if let Some(piece) = first(|piece| !piece.roles.is_at_rest()) {
            self.add(place, Notice::HalfDone, &piece.start);
        }
        if let Some(piece) = first(|piece| piece.roles.is_at_rest() && !piece.roles.old.is_empty()) {
            self.add(place, Notice::ToClear, &piece.start);
        } else if let Some(inner) = directory.inner_edge() {
            self.add(place, Notice::ToClear, inner);
        }
    }

    /// Removes and returns the notices (requests for work) about grown buckets of a partition, at
    /// most [`MAX_TAKEN`]. A job that handles a notice about one grown bucket calls this method to
    /// handle the others too.
    pub(crate) fn take_grown(&self, place: &PlaceId) -> Vec<(Bucket, Key)> {
        let mut inner = self.lock();
        let from = (Arc::clone(place), Notice::Grown(Bucket(0)));
        let to = (Arc::clone(place), Notice::Grown(Bucket(u64::MAX)));
        let addresses = inner.waiting.range(from..=to).map(|(address, _)| address.clone());
        let addresses: Vec<_> = addresses.take(MAX_TAKEN).collect();
        let mut take = |address: &(PlaceId, Notice)| {
            let noticed = inner.waiting.remove(address)?;
            match noticed.notice {
                Notice::Grown(bucket) => Some((bucket, noticed.key)),
                _ => None,
            }
        };
        addresses.iter().filter_map(&mut take).collect()
    }

    /// Waits for the next notice and returns it. Its job counts as under way until [`is_over`](Self::is_over) is
    /// called.
    pub(crate) async fn next(&self) -> Noticed {
        loop {
            if let Some(noticed) = self.lock().next() {
                return noticed;
            }
            self.came.notified().await;
        }
    }

    pub(crate) fn is_over(&self, noticed: &Noticed) {
        let place = Arc::clone(&noticed.place.id);
        self.lock().busy.remove(&(place, noticed.notice.kind()));
        self.came.notify_one();
    }
}

impl Inner {
    fn next(&mut self) -> Option<Noticed> {
        let clearings = self
            .busy
            .iter()
            .filter(|(_, kind)| *kind == Kind::Clearing)
            .count();
        let is_free = |address: &&(PlaceId, Notice)| {
            let (place, notice) = address;
            // The removal of old buckets waits for an hour, so limit the jobs that it occupies.
            let is_too_much = notice.kind() == Kind::Clearing && clearings >= MAX_CLEARINGS;
            !is_too_much && !self.busy.contains(&(Arc::clone(place), notice.kind()))
        };
        let later = self
            .waiting
            .keys()
            .filter(|address| self.after.as_ref() < Some(*address));
        let address = later.chain(self.waiting.keys()).find(is_free)?.clone();
        let noticed = self.waiting.remove(&address)?;
        self.busy.insert((Arc::clone(&address.0), address.1.kind()));
        self.after = Some(address);
        Some(noticed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::place;

    #[test]
    fn one_thing_at_a_time_is_done_in_a_partition() {
        let (notices, one, other) = (Notices::default(), place(1), place(2));
        for place in [&one, &other] {
            notices.add(place, Notice::Grown(Bucket(1)), b"a");
            notices.add(place, Notice::Grown(Bucket(1)), b"b");
            notices.add(place, Notice::HalfDone, b"c");
        }
        notices.add(&one, Notice::ToClear, b"d");
        let next = || notices.lock().next();
        let taken: Vec<_> = std::iter::from_fn(next).collect();
        let keys: Vec<_> = taken.iter().map(|noticed| noticed.key.as_slice()).collect();
        assert_eq!(keys, [b"a", b"d", b"a"], "clearing goes beside cutting");
        notices.is_over(&taken[0]);
        let next = next().expect("the partition is free");
        assert_eq!((next.notice, next.key.as_slice()), (Notice::HalfDone, &b"c"[..]));
    }

    #[test]
    fn drops_notices_over_the_limit() {
        let (notices, place) = (Notices::default(), place(1));
        for bucket in 0..=MAX_NOTICES as u64 {
            notices.add(&place, Notice::Grown(Bucket(bucket)), b"");
        }
        assert_eq!(notices.lock().waiting.len(), MAX_NOTICES);
    }
}
