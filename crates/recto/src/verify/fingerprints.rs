//! Fingerprints of view entries, divided into passes that fit into memory.

use std::collections::{BTreeMap, HashMap};

use recto_model::Cells;
use recto_protocol::views::Version;
use recto_protocol::views::collection::KeyCells;

/// Memory of one fingerprint in bytes. It includes the free space of the map of fingerprints, and
/// the old map while the map grows.
const FINGERPRINT_BYTES: u64 = 72;

/// Hash of an entry of a view. It begins with a hash of the key, so all fingerprints of one key
/// belong to one pass (a comparison of a part of all entries). A repair may be interrupted between
/// the removal of a wrong entry and the put of the right entry. A process that resumes the pass
/// then finds the missing entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Fingerprint([u8; 16]);

impl Fingerprint {
    /// Returns the fingerprint of an entry. It covers the key, the cells, and the version if there
    /// is one.
    pub(super) fn of(key: &KeyCells, version: Option<Version>, cells: &Cells) -> Self {
        let mut bytes = [0; 16];
        let (of_key, of_all) = bytes.split_at_mut(8);
        let mut hasher = blake3::Hasher::new();
        hasher.update(key.as_bytes()).finalize_xof().fill(of_key);
        let version = version.map(|version| version.0.to_be_bytes());
        let version = version.as_ref().map(<[u8; 8]>::as_slice);
        for part in std::iter::once(version).chain(cells.iter()) {
            // A null gets a length that no cell has, so that it differs from an empty cell.
            let length = part.map_or(u64::MAX, |part| part.len() as u64);
            hasher.update(&length.to_be_bytes());
            hasher.update(part.unwrap_or_default());
        }
        hasher.finalize_xof().fill(of_all);
        Self(bytes)
    }

    fn number(self) -> u128 {
        u128::from_be_bytes(self.0)
    }
}

/// Fingerprints of one pass: the part of a comparison whose fingerprints are in one range. If they
/// are too many for the memory, the pass lowers the end of its range.
#[derive(Debug)]
pub(super) struct Pass {
    first: u128,
    /// End of the pass's range: the last fingerprint that belongs to it.
    last: u128,
    most: usize,
    /// For each fingerprint of the pass, the index of the place (step of the scan of records) where
    /// it was found.
    met: HashMap<Fingerprint, u32>,
}

impl Pass {
    /// Creates the pass whose range begins with `first`, for fingerprints that take at most
    /// `memory_bytes`.
    pub(super) fn from(first: u128, memory_bytes: u64) -> Self {
        let most = usize::try_from(memory_bytes / FINGERPRINT_BYTES).unwrap_or(usize::MAX);
        Self {
            first,
            last: u128::MAX,
            most: most.max(1),
            met: HashMap::new(),
        }
    }

    /// Returns the beginning of the next pass's range; `None` if this pass is the last.
    pub(super) fn next(&self) -> Option<u128> {
        self.last.checked_add(1)
    }

    /// Returns the size of the range after this pass, as a multiple of this pass. Fingerprints are
    /// distributed evenly, so this is also the ratio of the work.
    pub(super) fn left_after(&self) -> f64 {
        (u128::MAX - self.last) as f64 / (self.last - self.first).max(1) as f64
    }

    pub(super) fn is_of(&self, fingerprint: Fingerprint) -> bool {
        (self.first..=self.last).contains(&fingerprint.number())
    }

    /// Adds a fingerprint that was found in the scan step with the index `place`, if the
    /// fingerprint belongs to this pass.
    pub(super) fn meet(&mut self, fingerprint: Fingerprint, place: u32) {
        if !self.is_of(fingerprint) {
            return;
        }
        self.met.insert(fingerprint, place);
        while self.met.len() > self.most && self.last > self.first {
            self.last = self.first + (self.last - self.first) / 2;
            let last = self.last;
            self.met.retain(|fingerprint, _| fingerprint.number() <= last);
        }
    }

    /// Removes a fingerprint. Returns whether the pass contained it.
    pub(super) fn take(&mut self, fingerprint: Fingerprint) -> bool {
        self.met.remove(&fingerprint).is_some()
    }

    /// Returns whether the pass contains a fingerprint. If `place` is given, the fingerprint must
    /// have been found in the scan step with this index.
    pub(super) fn has(&self, fingerprint: Fingerprint, place: Option<u32>) -> bool {
        let met = self.met.get(&fingerprint);
        met.is_some_and(|met| place.is_none_or(|place| *met == place))
    }

    /// Returns the places (indexes of scan steps) of the remaining fingerprints, in order, each
    /// with its number of fingerprints. Returns `None` if a fingerprint was found at a place that
    /// is not among the `kept` stored places.
    pub(super) fn places_left(&self, kept: usize) -> Option<BTreeMap<u32, usize>> {
        let mut left = BTreeMap::new();
        for place in self.met.values() {
            if *place as usize >= kept {
                return None;
            }
            *left.entry(*place).or_default() += 1;
        }
        Some(left)
    }

    /// Returns whether no fingerprint remains in the pass.
    pub(super) fn is_empty(&self) -> bool {
        self.met.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_share_all_fingerprints_whatever_memory_there_is() {
        let all: Vec<Fingerprint> = (0..1_000_u32)
            .map(|number| {
                let mut key = vec![0, 0, 0, 4];
                key.extend(number.to_be_bytes());
                let key = KeyCells::from_bytes(&key).expect("one cell");
                Fingerprint::of(&key, None, &Cells::default())
            })
            .collect();
        for most in [1, 7, 100, 10_000] {
            let mut first = Some(0);
            let (mut passes, mut found) = (0_u64, 0);
            while let Some(from) = first {
                let mut one = Pass::from(from, most * FINGERPRINT_BYTES);
                for (place, fingerprint) in (0..).zip(&all) {
                    one.meet(*fingerprint, place);
                    assert!(one.met.len() as u64 <= most);
                }
                let left = one.places_left(all.len()).map(|places| places.values().sum());
                let is_elsewhere = one.places_left(all.len() / 2).is_none();
                assert!(
                    is_elsewhere || most < 10,
                    "half of them were met in places that are not kept"
                );
                let taken = all.iter().filter(|fingerprint| one.take(**fingerprint)).count();
                assert_eq!((left, one.is_empty()), (Some(taken), true));
                found += taken;
                passes += 1;
                first = one.next();
            }
            assert_eq!(found, all.len(), "each is of one pass");
            assert!(most < 1_000 || passes == 1);
        }
    }

    #[test]
    fn a_pass_takes_the_memory_that_it_is_given() {
        const MEMORY_BYTES: u64 = 1 << 20;
        // 7,169 and 14,337 are one more than a capacity of the map, so the map
        // grows at these counts.
        let of = |number: u128| Fingerprint((number * (u128::MAX / 100_000)).to_be_bytes());
        for count in [1_000, 7_168, 7_169, 14_336, 14_337, 14_564, 50_000, 100_000] {
            let taken = allocation_counter::measure(|| {
                let mut pass = Pass::from(0, MEMORY_BYTES);
                for number in 0..count {
                    pass.meet(of(number), 0);
                }
            });
            assert!(taken.bytes_max < MEMORY_BYTES, "{count}: {taken:?}");
        }
    }

    #[test]
    fn depends_on_version_and_cells() {
        let key = KeyCells::from_bytes(&[0, 0, 0, 1, 7]).expect("one cell");
        let cells = |cells: [Option<&[u8]>; 2]| -> Cells { cells.into_iter().collect() };
        let of = |version: i64, both: [Option<&[u8]>; 2]| {
            Fingerprint::of(&key, Some(Version(version)), &cells(both))
        };
        let one = of(1, [Some(b"a"), None]);
        assert_eq!(one, of(1, [Some(b"a"), None]));
        for other in [
            of(2, [Some(b"a"), None]),
            of(1, [None, Some(b"a")]),
            of(1, [Some(b"a"), Some(b"")]),
            of(1, [Some(b""), Some(b"a")]),
            Fingerprint::of(&key, None, &cells([Some(b"a"), None])),
        ] {
            assert_ne!(one, other);
            assert_eq!(one.number() >> 64, other.number() >> 64, "at one key");
        }
    }
}
