//! Fields that sort as people of a language do, and texts that stand elsewhere then than their bytes.

use recto_model::schema::Collection;
use recto_model::{Type, Value};

use super::Rng;
use crate::oracle::Collations;

/// Locales whose orders differ: the root's, letters of their own, contractions, accents from behind, capitals first,
/// scripts, vowels that stand before their consonants.
const LOCALES: [&str; 16] = [
    "und",
    "de",
    "de-u-co-phonebk",
    "sv",
    "da",
    "cs",
    "hu",
    "et",
    "lt",
    "tr",
    "es-u-co-trad",
    "fr-CA",
    "ru",
    "th",
    "ja",
    "zh-u-co-stroke",
];
/// What texts are put together of: letters with capitals and marks (as one and as two), what is one letter in some
/// languages, what is ignored at first, digits, other scripts.
const PIECES: [&str; 36] = [
    "a", "A", "ä", "a\u{308}", "Ä", "å", "aa", "Aa", "z", "Z", "o", "ö", "ø", "ß", "ss", "c", "ch", "Ch",
    "h", "ll", "dzs", "i", "ı", "İ", "é", "e\u{301}", "\u{301}", "-", " ", "\0", "2", "10", "е", "เก", "か",
    "中",
];
/// The most pieces of a text: eight KiB hold the sort keys of a row's fields, and texts that have neighbours.
const MAX_PIECES: usize = 4;

/// Collations for one to all of these fields, each of which is a text from then on.
pub fn collations(rng: &mut Rng, collection: &mut Collection, fields: &[String]) -> Collations {
    let mut collations = Collations::new();
    let always = rng.usize(0..fields.len());
    for (index, name) in fields.iter().enumerate() {
        if index != always && rng.bool() {
            continue;
        }
        let field = collection.fields.iter_mut().find(|field| field.name == *name);
        field.expect("they are of the collection").ty = Type::Text;
        let locale = LOCALES[rng.usize(0..LOCALES.len())];
        collations.insert(name.clone(), locale.to_owned());
    }
    collations
}

/// A text for a field with a collation.
pub(super) fn text(rng: &mut Rng) -> Value {
    let pieces = (0..rng.usize(0..=MAX_PIECES)).map(|_| PIECES[rng.usize(0..PIECES.len())]);
    Value::Text(pieces.collect())
}
