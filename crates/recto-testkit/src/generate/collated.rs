//! Random fields with collations (language-specific orders), and texts whose collation order
//! differs from their byte order.

use recto_model::schema::Collection;
use recto_model::{Type, Value};

use super::Rng;
use crate::oracle::Collations;

/// Locales whose orders differ in kind: the default order, additional letters, letter pairs as one
/// letter, accents compared from the end, capitals first, other scripts, and vowels that are
/// written before their consonant.
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
/// Parts of which random texts consist:
///
/// - letters, with capitals and marks (as one character and as two)
/// - combinations that are one letter in some languages
/// - characters that a collation ignores in its first comparison
/// - digits
/// - other scripts
const PIECES: [&str; 36] = [
    "a", "A", "ä", "a\u{308}", "Ä", "å", "aa", "Aa", "z", "Z", "o", "ö", "ø", "ß", "ss", "c", "ch", "Ch",
    "h", "ll", "dzs", "i", "ı", "İ", "é", "e\u{301}", "\u{301}", "-", " ", "\0", "2", "10", "е", "เก", "か",
    "中",
];
/// Maximum number of parts of a random text. The collation keys of all fields of a row must fit
/// into 8 KiB.
const MAX_PIECES: usize = 4;

/// Gives a random collation to at least one of these fields, and makes each such field a text
/// field. Returns the locales.
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

/// Returns a random text for a field with a collation (language-specific order).
pub(super) fn text(rng: &mut Rng) -> Value {
    let pieces = (0..rng.usize(0..=MAX_PIECES)).map(|_| PIECES[rng.usize(0..PIECES.len())]);
    Value::Text(pieces.collect())
}
