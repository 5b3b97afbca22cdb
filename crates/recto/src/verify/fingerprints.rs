//! Fingerprints of entries, as many at once as there is memory for.

use std::collections::HashMap;

use recto_model::Cells;
use recto_views::Version;
use recto_views::collection::KeyCells;

/// How many bytes one takes in memory, with the room that the map keeps free.
const FINGERPRINT_BYTES: u64 = 64;

/// What an entry says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Fingerprint(u128);

impl Fingerprint {
    /// Of an entry; the version counts where there is one.
    pub(super) fn of(key: &KeyCells, version: Option<Version>, cells: &Cells) -> Self {
        let mut hasher = blake3::Hasher::new();
        // A null has a length that no cell has.
        let mut part = |bytes: Option<&[u8]>| {
            let length = bytes.map_or(u64::MAX, |bytes| bytes.len() as u64);
            hasher.update(&length.to_be_bytes());
            hasher.update(bytes.unwrap_or_default());
        };
        part(Some(key.as_bytes()));
        part(
            version
                .map(|version| version.0.to_be_bytes())
                .as_ref()
                .map(<[u8; 8]>::as_slice),
        );
        cells.iter().for_each(part);
        let mut bytes = [0; 16];
        hasher.finalize_xof().fill(&mut bytes);
        Self(u128::from_be_bytes(bytes))
    }
}

/// Fingerprints of one pass: those from the first of it to its end, which comes nearer when there are too many.
#[derive(Debug)]
pub(super) struct Pass {
    first: u128,
    /// The last that is of it.
    last: u128,
    most: usize,
    /// Where each was met.
    met: HashMap<Fingerprint, u32>,
}

impl Pass {
    /// The first pass, with at most so much memory.
    pub(super) fn first(memory_bytes: u64) -> Self {
        let most = usize::try_from(memory_bytes / FINGERPRINT_BYTES).unwrap_or(usize::MAX);
        Self {
            first: 0,
            last: u128::MAX,
            most: most.max(1),
            met: HashMap::new(),
        }
    }

    /// The pass after this one, as wide as the memory lets it be; none if there is nothing left.
    pub(super) fn next(&self) -> Option<Self> {
        let first = self.last.checked_add(1)?;
        Some(Self {
            first,
            last: u128::MAX,
            most: self.most,
            met: HashMap::new(),
        })
    }

    pub(super) fn is_of(&self, fingerprint: Fingerprint) -> bool {
        (self.first..=self.last).contains(&fingerprint.0)
    }

    /// One was met, if it is of this pass.
    pub(super) fn meet(&mut self, fingerprint: Fingerprint, place: u32) {
        if !self.is_of(fingerprint) {
            return;
        }
        self.met.insert(fingerprint, place);
        while self.met.len() > self.most && self.last > self.first {
            self.last = self.first + (self.last - self.first) / 2;
            let last = self.last;
            self.met.retain(|fingerprint, _| fingerprint.0 <= last);
        }
    }

    /// Whether it was met, and not taken yet.
    pub(super) fn take(&mut self, fingerprint: Fingerprint) -> bool {
        self.met.remove(&fingerprint).is_some()
    }

    pub(super) fn has(&self, fingerprint: Fingerprint) -> bool {
        self.met.contains_key(&fingerprint)
    }

    /// Where those were met that were not taken, each place once, in order.
    pub(super) fn places_left(&self) -> Vec<u32> {
        let mut places: Vec<u32> = self.met.values().copied().collect();
        places.sort_unstable();
        places.dedup();
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_share_all_fingerprints_whatever_memory_there_is() {
        let all: Vec<Fingerprint> = (0..1_000_u32)
            .map(|number| {
                let cells: Cells = [Some(&number.to_be_bytes()[..]), None].into_iter().collect();
                let key = KeyCells::from_bytes(&[]).expect("no cells are a key");
                Fingerprint::of(&key, None, &cells)
            })
            .collect();
        for most in [1, 7, 100, 10_000] {
            let mut pass = Some(Pass::first(most * FINGERPRINT_BYTES));
            let (mut passes, mut found) = (0_u64, 0);
            while let Some(mut one) = pass {
                for (place, fingerprint) in (0..).zip(&all) {
                    one.meet(*fingerprint, place);
                    assert!(one.met.len() as u64 <= most);
                }
                let left = one.places_left().len();
                let taken = all.iter().filter(|fingerprint| one.take(**fingerprint)).count();
                assert_eq!(left, taken);
                found += taken;
                passes += 1;
                pass = one.next();
            }
            assert_eq!(found, all.len(), "each is of one pass");
            assert!(most < 1_000 || passes == 1);
        }
    }

    #[test]
    fn what_differs_has_another_fingerprint() {
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
        }
    }
}
