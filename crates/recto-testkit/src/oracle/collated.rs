//! Comparison of texts by collations (language-specific orders). It uses only ICU, and none of
//! Recto's collation keys.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use icu_collator::options::CollatorOptions;
use icu_collator::{CollatorBorrowed, CollatorPreferences};
use icu_locale_core::Locale;
use recto_model::Value;
use recto_model::schema::Collection;

use super::order;

/// Locale of each field that has a collation (language-specific order), by the name of the field.
/// Other fields are compared by their bytes.
pub type Collations = BTreeMap<String, String>;

/// ICU collator of each field of a collection; `None`: the field has no collation.
pub(super) struct Collated(Vec<Option<CollatorBorrowed<'static>>>);

impl Collated {
    /// Creates the collators of a collection's fields.
    ///
    /// # Panics
    /// If ICU does not accept a locale.
    pub(super) fn new(collection: &Collection, collations: &Collations) -> Self {
        let collator = |name: &String| {
            let locale: Locale = collations.get(name)?.parse().expect("a language tag");
            let made =
                CollatorBorrowed::try_new(CollatorPreferences::from(&locale), CollatorOptions::default());
            Some(made.expect("its data is compiled in"))
        };
        Self(
            collection
                .fields
                .iter()
                .map(|field| collator(&field.name))
                .collect(),
        )
    }

    /// Compares two values of a field with a collation by ICU, and by their bytes if ICU regards
    /// them as equal. Compares values of other fields as Cassandra does.
    pub(super) fn compare(&self, field: usize, left: &Value, right: &Value) -> Ordering {
        let by_collation = match (&self.0[field], left, right) {
            (Some(collator), Value::Text(left), Value::Text(right))
            | (Some(collator), Value::Ascii(left), Value::Ascii(right)) => collator.compare(left, right),
            _ => Ordering::Equal,
        };
        by_collation.then_with(|| order::compare(left, right))
    }

    /// Compares two values that may be null, which is less than any value.
    pub(super) fn compare_nullable(
        &self,
        field: usize,
        left: Option<&Value>,
        right: Option<&Value>,
    ) -> Ordering {
        match (left, right) {
            (Some(left), Some(right)) => self.compare(field, left, right),
            (left, right) => left.is_some().cmp(&right.is_some()),
        }
    }
}

impl fmt::Debug for Collated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(Option::is_some))
            .finish()
    }
}
