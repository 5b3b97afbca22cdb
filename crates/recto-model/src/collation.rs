//! Collations: how people of a language sort text.
//!
//! The order of a text field with a collation is that of ICU (the crate `icu_collator`: the Unicode Collation Algorithm
//! with CLDR's tailorings, at its default strength), and of texts that it calls equal that of their bytes. So texts are
//! equal in it exactly if they are equal. A *sort key* is that order without the second part, as bytes: what stands in a
//! view before the text.

#[cfg(feature = "collation")]
mod icu;
mod locales;

use std::cmp::Ordering;
use std::fmt;

pub use locales::LOCALES;

use crate::schema::nearest;

/// Which sort keys this release makes. What a store keeps by other keys is not in this order: whatever changes one key of
/// `tests/golden/sort-keys-v{}.txt` raises it.
pub const COLLATION_NUMBER: u32 = 1;

/// Whether sort keys are made at all: the feature `collation` is on. Without it nothing that has a collation may be read
/// or written.
pub const IS_BUILT_IN: bool = cfg!(feature = "collation");

/// The order of text in one locale.
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
    /// The collation of this name; none if it is not one of [`LOCALES`].
    pub fn named(name: &str) -> Option<Self> {
        let index = LOCALES.iter().position(|locale| *locale == name)?;
        index.try_into().ok().map(Self)
    }

    /// The name most like this one, for "did you mean": that of a longer tag's language, or of one that is spelt
    /// almost so.
    pub fn nearest(name: &str) -> Option<&'static str> {
        let language = name.split(['-', '_']).next().unwrap_or_default();
        let of_language = LOCALES
            .iter()
            .find(|locale| locale.eq_ignore_ascii_case(language));
        let like = || nearest(name, LOCALES.iter().copied());
        of_language.copied().or_else(like)
    }

    /// Its name, a language tag.
    pub fn locale(self) -> &'static str {
        LOCALES[usize::from(self.0)]
    }

    /// The sort key of a text: keys compare by their bytes as their texts do, but for texts that are equal but for their
    /// bytes. What is no UTF-8 counts as U+FFFD.
    pub fn sort_key(self, text: &[u8]) -> Vec<u8> {
        #[cfg(feature = "collation")]
        return icu::sort_key(self, text);
        // Nobody asks: what has a collation is refused.
        #[cfg(not(feature = "collation"))]
        text.to_vec()
    }

    /// Compares texts: as their sort keys compare, and equal ones by their bytes.
    pub fn compare(self, left: &[u8], right: &[u8]) -> Ordering {
        #[cfg(feature = "collation")]
        return icu::compare(self, left, right).then_with(|| left.cmp(right));
        #[cfg(not(feature = "collation"))]
        left.cmp(right)
    }
}

/// Its name.
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
