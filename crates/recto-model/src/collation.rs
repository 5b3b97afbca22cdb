//! Collations: the order of text in a language.
//!
//! The order of a text field with a collation is the order of ICU (the crate `icu_collator`: the
//! Unicode Collation Algorithm with CLDR's tailorings, at its default strength). Texts that ICU
//! considers equal are ordered by their bytes, so two texts are equal only if they are identical. A
//! *sort key* is a byte string computed from a text: the byte order of sort keys is ICU's order of
//! the texts. A view stores the sort key before the text.

#[cfg(feature = "collation")]
mod icu;
mod locales;

use std::cmp::Ordering;
use std::fmt;

pub use locales::LOCALES;

use crate::schema::nearest;

/// Version of the sort keys that this release computes. Data that a store sorted by another version
/// is not in the current order. Increment the version whenever a key in
/// `tests/golden/sort-keys-v{}.txt` changes.
pub const COLLATION_NUMBER: u32 = 1;

/// True if this build computes sort keys, because the feature `collation` is enabled. Without the
/// feature, Recto must not read or write collections that use a collation.
pub const IS_BUILT_IN: bool = cfg!(feature = "collation");

/// Order of text in one locale.
///
/// ```
/// use recto_model::collation::Collation;
///
/// let german = Collation::named("de").expect("it is one of them");
/// assert_eq!(german.to_string(), "de");
/// # if recto_model::collation::IS_BUILT_IN {
/// assert!(german.compare("Ärger".as_bytes(), "Zorn".as_bytes()).is_lt());
/// # }
/// assert_eq!(Collation::named("tlh"), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Collation(u8);

impl Collation {
    /// Returns the collation with a name from [`LOCALES`], or `None` if the list does not contain
    /// the name.
    pub fn named(name: &str) -> Option<Self> {
        let index = LOCALES.iter().position(|locale| *locale == name)?;
        index.try_into().ok().map(Self)
    }

    /// Returns the most similar collation name, for the hint "did you mean". The result is the
    /// language without the rest of the tag, or a name with a similar spelling.
    pub fn nearest(name: &str) -> Option<&'static str> {
        let language = name.split(['-', '_']).next().unwrap_or_default();
        let of_language = LOCALES
            .iter()
            .find(|locale| locale.eq_ignore_ascii_case(language));
        let like = || nearest(name, LOCALES.iter().copied());
        of_language.copied().or_else(like)
    }

    /// Returns the name of the collation, which is a language tag.
    pub fn locale(self) -> &'static str {
        LOCALES[usize::from(self.0)]
    }

    /// Returns the sort key of a text: bytes that sort like the text in this collation. Different
    /// texts can have the same sort key. Invalid UTF-8 counts as U+FFFD.
    pub fn sort_key(self, text: &[u8]) -> Vec<u8> {
        #[cfg(feature = "collation")]
        return icu::sort_key(self, text);
        // Return any key: without the feature, collections with a collation are rejected, so this
        // line is unreachable.
        #[cfg(not(feature = "collation"))]
        text.to_vec()
    }

    /// Compares texts by their sort keys. Texts with equal sort keys are compared by their bytes.
    pub fn compare(self, left: &[u8], right: &[u8]) -> Ordering {
        #[cfg(feature = "collation")]
        return icu::compare(self, left, right).then_with(|| left.cmp(right));
        #[cfg(not(feature = "collation"))]
        left.cmp(right)
    }
}

/// Writes the name of the collation, such as `de`.
impl fmt::Display for Collation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.locale())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_and_like_ones_proposed() {
        assert!(u8::try_from(LOCALES.len()).is_ok());
        for locale in LOCALES {
            assert_eq!(Collation::named(locale).map(Collation::locale), Some(*locale));
        }
        for (name, like) in [
            ("de-AT", "de"),
            ("de_DE", "de"),
            ("DE", "de"),
            ("sv-FI", "sv"),
            ("ger", "ha"),
        ] {
            assert_eq!(Collation::named(name), None, "{name}");
            let found = Collation::nearest(name);
            assert!(name == "ger" || found == Some(like), "{name}: {found:?}");
        }
    }
}
