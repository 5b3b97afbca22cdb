//! Checkpoint of a comparison: encrypted text with which a later request resumes the comparison.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use recto_plan::place_token;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::buckets::Looked;
use crate::error::{Error, ErrorKind, Result};
use crate::session::{VerifiedBuckets, VerifiedView};
use crate::shared::Shared;

/// Version of the encrypted content. Version 1 had no buckets. Version 2 had no numbers of misfits
/// (records that a view cannot store). Version 3 had the word `mended` instead of `repaired`.
const PLACE_VERSION: u64 = 4;

/// Progress of the comparison of one view with its records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reached {
    /// Id of the view.
    pub(super) number: u64,
    /// Beginning of the range of fingerprints that remains to be compared; `None` if the view is
    /// completely compared.
    pub(super) next: Option<u128>,
    /// Findings in the range of fingerprints before `next`.
    pub(super) found: VerifiedView,
}

/// Progress of the comparison of several views.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Compared {
    /// Generation of the schema that the comparison uses.
    pub(super) generation: u64,
    pub(super) mends: bool,
    /// Time at which the comparison first began, in seconds since 1970.
    pub(super) begun_at_seconds: u64,
    pub(super) views: Vec<Reached>,
    /// Progress of the checks of buckets, for each sort order with buckets.
    pub(super) buckets: Vec<Looked>,
}

/// Content of a checkpoint: the JSON that is encrypted.
#[derive(Deserialize)]
struct Sealed {
    version: u64,
    generation: u64,
    mends: bool,
    begun_at_seconds: u64,
    views: Vec<SealedView>,
    #[serde(default)]
    buckets: Vec<SealedBuckets>,
}

#[derive(Deserialize)]
struct SealedBuckets {
    position: Option<String>,
    over: bool,
    found: VerifiedBuckets,
}

#[derive(Deserialize)]
struct SealedView {
    number: u64,
    next: Option<String>,
    found: VerifiedView,
}

impl Compared {
    /// Returns the progress of a comparison that begins now.
    pub(super) fn begun(
        generation: u64,
        mends: bool,
        shared: &Shared,
        (views, buckets): (Vec<Reached>, Vec<Looked>),
    ) -> Self {
        Self {
            generation,
            mends,
            begun_at_seconds: shared.environment.now_seconds(),
            views,
            buckets,
        }
    }

    /// Returns the checkpoint as encrypted text. If the text would be too long, leaves out the
    /// examples of differences. Returns `None` if it is still too long.
    pub(super) fn seal(&self, shared: &Shared) -> Option<String> {
        let seal = |json: Json| {
            let (keys, place) = (shared.keys.ring(), json.to_string());
            place_token::seal(&keys, &shared.environment, place.as_bytes())
        };
        seal(self.to_json(true)).or_else(|| seal(self.to_json(false)))
    }

    fn to_json(&self, has_examples: bool) -> Json {
        let views = self.views.iter().map(|view| {
            let mut found = view.found.to_json();
            if !has_examples {
                found["examples"] = json!([]);
            }
            json!({ "number": view.number, "next": view.next.map(|next| format!("{next:x}")), "found": found })
        });
        let buckets = self.buckets.iter().map(|looked| {
            let mut found = json!(looked.found);
            if !has_examples {
                found["examples"] = json!([]);
            }
            let position = looked
                .position
                .as_deref()
                .map(|position| URL_SAFE_NO_PAD.encode(position));
            json!({ "position": position, "over": looked.is_over, "found": found })
        });
        let buckets: Vec<Json> = buckets.collect();
        json!({
            "version": PLACE_VERSION,
            "generation": self.generation,
            "mends": self.mends,
            "begun_at_seconds": self.begun_at_seconds,
            "views": views.collect::<Vec<_>>(),
            "buckets": buckets,
        })
    }

    /// Returns the progress in the checkpoint `text`. `self` is the progress of a comparison that
    /// begins now. The checkpoint must belong to a comparison of the same views in the same schema.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidCursor`]: the checkpoint is invalid or belongs to another comparison.
    pub(super) async fn gone_on_from(self, text: &str, shared: &Shared) -> Result<Self> {
        shared.keys.learn(text, shared.read_options().timeout).await?;
        let place = place_token::open(&shared.keys.ring(), &shared.environment, text)
            .map_err(|error| refused(error.to_string()).with_source(error))?;
        let reached = Self::read(&place)
            .ok_or_else(|| refused("the place holds what this release does not understand"))?;
        if reached.generation != self.generation {
            return Err(refused("the schema was changed since the place was kept"));
        }
        let numbers = |one: &Reached| (one.found.collection.clone(), one.number);
        let (ours, theirs) = (self.views.iter().map(numbers), reached.views.iter().map(numbers));
        let names = |one: &Looked| (one.found.collection.clone(), one.found.view.clone());
        let same_buckets = self
            .buckets
            .iter()
            .map(names)
            .eq(reached.buckets.iter().map(names));
        if reached.mends != self.mends || !ours.eq(theirs) || !same_buckets {
            return Err(refused("the place is of another comparison"));
        }
        Ok(reached)
    }

    /// Decodes a checkpoint; `None` if this release does not understand it.
    fn read(place: &[u8]) -> Option<Self> {
        let sealed: Option<Sealed> = serde_json::from_slice(place).ok();
        let sealed = sealed.filter(|sealed| (1..=PLACE_VERSION).contains(&sealed.version))?;
        let views = sealed.views.into_iter().map(SealedView::reached);
        let buckets = sealed.buckets.into_iter().map(SealedBuckets::looked);
        Some(Self {
            generation: sealed.generation,
            mends: sealed.mends,
            begun_at_seconds: sealed.begun_at_seconds,
            views: views.collect::<Option<_>>()?,
            buckets: buckets.collect::<Option<_>>()?,
        })
    }
}

impl SealedBuckets {
    /// Decodes the progress of a bucket check; `None` if this release does not understand it.
    fn looked(self) -> Option<Looked> {
        let position = self.position.map(|text| URL_SAFE_NO_PAD.decode(text));
        Some(Looked {
            position: position.transpose().ok()?,
            is_over: self.over,
            found: self.found,
        })
    }
}

impl SealedView {
    /// Decodes the progress of a view; `None` if this release does not understand it.
    fn reached(self) -> Option<Reached> {
        let next = self.next.map(|next| u128::from_str_radix(&next, 16));
        Some(Reached {
            number: self.number,
            next: next.transpose().ok()?,
            found: self.found,
        })
    }
}

#[cold]
fn refused(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidCursor, message).with_hint(
        "begin at the beginning, without the place; a place is of one store, the same command and one schema",
    )
}

/// Checks that a checkpoint is unchanged after it was decoded, encoded and decoded again, with and
/// without examples.
///
/// # Panics
/// The result differs.
#[cfg(feature = "fuzzing")]
pub fn place(sealed: &[u8]) {
    let Some(mut compared) = Compared::read(sealed) else {
        return;
    };
    let again = |compared: &Compared, has_examples| {
        let written = compared.to_json(has_examples).to_string();
        Compared::read(written.as_bytes())
    };
    assert_eq!(again(&compared, true).as_ref(), Some(&compared));
    let without_examples = again(&compared, false);
    for view in &mut compared.views {
        view.found.examples.clear();
    }
    for looked in &mut compared.buckets {
        looked.found.examples.clear();
    }
    assert_eq!(without_examples, Some(compared));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_before_are_read() {
        let golden = include_str!("golden/place-v4.json").trim();
        let compared = Compared::read(golden.as_bytes()).expect("it is of this release");
        assert_eq!(compared.views[1].next, Some(1 << 127));
        assert_eq!(compared.views[0].found.examples.len(), 1);
        assert_eq!(compared.buckets[0].position, Some(vec![1, 2, 0]));
        assert_eq!(
            (
                compared.buckets[0].found.wrong(),
                compared.buckets[0].found.left()
            ),
            (3, 1)
        );
        let json: Json = serde_json::from_str(golden).expect("it is JSON");
        assert_eq!(compared.to_json(true), json);
        let newer = golden.replace("\"version\":4", "\"version\":5");
        assert_eq!(Compared::read(newer.as_bytes()), None);
        // Outcomes of version 3 contain `mended` instead of `repaired`, so the
        // test replaces the word.
        let before = include_bytes!("golden/place-v3.json");
        let mut mended = Compared::read(before).expect("it is read");
        mended.views[0].found.examples[0].outcome = "repaired".into();
        mended.buckets[0].found.examples[0].outcome = "repaired".into();
        assert_eq!(mended, compared);
        // Version 2 of the checkpoint has no counts of misfits (records that a view cannot store),
        // so these counts are read as zero.
        let without_misfits = Compared::read(include_bytes!("golden/place-v2.json")).expect("it is read");
        let mut known = Compared::read(golden.as_bytes()).expect("it is of this release");
        known.views[0].found.examples[0].outcome = "mended".into();
        known.buckets[0].found.examples[0].outcome = "mended".into();
        for view in &mut known.views {
            (view.found.misfits, view.found.misfits_recorded) = Default::default();
        }
        assert_eq!(without_misfits, known);
        // Version 1 of the checkpoint has no progress of the checks of buckets, so this progress is
        // read as an empty list.
        let before = Compared::read(include_bytes!("golden/place-v1.json")).expect("it is read");
        let without = Compared {
            buckets: Vec::new(),
            ..known
        };
        assert_eq!(before, without);
    }
}
