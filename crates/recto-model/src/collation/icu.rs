//! Collators of the crate `icu_collator`, one for each locale. A collator is created at its first
//! use.

use std::cmp::Ordering;
use std::sync::OnceLock;

use icu_collator::options::CollatorOptions;
use icu_collator::{CollatorBorrowed, CollatorPreferences};
use icu_locale_core::Locale;

use super::{Collation, LOCALES};

static COLLATORS: [OnceLock<CollatorBorrowed<'static>>; LOCALES.len()] =
    [const { OnceLock::new() }; LOCALES.len()];

pub(super) fn sort_key(collation: Collation, text: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(text.len() + 8);
    let Ok(()) = collator(collation).write_sort_key_utf8_to(text, &mut key);
    key
}

pub(super) fn compare(collation: Collation, left: &[u8], right: &[u8]) -> Ordering {
    collator(collation).compare_utf8(left, right)
}

fn collator(collation: Collation) -> &'static CollatorBorrowed<'static> {
    COLLATORS[usize::from(collation.0)].get_or_init(|| {
        let locale: Locale = collation
            .locale()
            .parse()
            .expect("each name is a language tag, as a test checks");
        let options = CollatorOptions::default();
        CollatorBorrowed::try_new(CollatorPreferences::from(&locale), options)
            .expect("the data of each locale is compiled in, as a test checks")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_collator_of_each_name() {
        for locale in LOCALES {
            let collation = Collation::named(locale).expect("it is one of them");
            assert!(compare(collation, b"a", b"b").is_lt(), "{locale}");
        }
    }
}
