//! Tests of sort keys (bytes that sort like text in a language). Users' stores contain sort keys,
//! so the keys of one version must never change.

use std::cmp::Ordering;
use std::fmt::Write;

use proptest::prelude::*;
use recto_model::collation::{COLLATION_NUMBER, Collation, LOCALES};

const GOLDEN: &str = include_str!("../golden/sort-keys-v1.txt");
const FORMATS: &str = include_str!("../../../../docs/format.md");

/// Names of the collations, besides the root collation, whose sort keys are in the golden file.
const IN_FILE: [&str; 9] = [
    "de",
    "de-u-co-phonebk",
    "es",
    "fr-CA",
    "ja",
    "pl",
    "sv",
    "th",
    "zh",
];

fn named(locale: &str) -> Collation {
    Collation::named(locale).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// Returns a line of the golden file: a text as JSON, its sort key in the root collation, and its
/// sort keys in other collations if they differ.
fn line(text: &str) -> String {
    let root = named("und").sort_key(text.as_bytes());
    let mut line = format!("{}\t{}", serde_json::to_string(text).unwrap(), hex(&root));
    for locale in IN_FILE {
        let key = named(locale).sort_key(text.as_bytes());
        if key != root {
            write!(line, "\t{locale}={}", hex(&key)).unwrap();
        }
    }
    line
}

#[test]
fn sort_keys_are_those_of_their_number() {
    assert_eq!(COLLATION_NUMBER, 1);
    assert!(FORMATS.contains("sort-keys-v1.txt"));
    let lines: Vec<&str> = GOLDEN.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(lines.len() >= 200);
    for expected in lines {
        let (text, _) = expected.split_once('\t').unwrap();
        let text: String = serde_json::from_str(text).unwrap();
        assert_eq!(
            line(&text),
            expected,
            "the sort keys of {text:?} are others than those in people's stores: raise COLLATION_NUMBER, so that views \
             are built anew, and write a file of the new ones beside this"
        );
    }
}

#[test]
fn keys_of_the_file_are_in_the_order_of_the_texts() {
    let texts: Vec<String> = GOLDEN
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| serde_json::from_str(line.split_once('\t').unwrap().0).unwrap())
        .collect();
    for locale in IN_FILE.iter().chain(&["und"]) {
        let collation = named(locale);
        let keys: Vec<_> = texts
            .iter()
            .map(|text| collation.sort_key(text.as_bytes()))
            .collect();
        for (one, key) in texts.iter().zip(&keys) {
            for (other, other_key) in texts.iter().zip(&keys) {
                let by_keys = key.cmp(other_key).then_with(|| one.cmp(other));
                let by_texts = collation.compare(one.as_bytes(), other.as_bytes());
                assert_eq!(by_keys, by_texts, "{collation}: {one:?} and {other:?}");
            }
        }
    }
}

/// Checks the property on which views rely: sort keys compare as the collation compares their
/// texts, and texts with equal sort keys compare by their bytes.
fn assert_in_order(collation: Collation, one: &str, other: &str) {
    let key = |text: &str| collation.sort_key(text.as_bytes());
    let by_keys = key(one).cmp(&key(other)).then_with(|| one.cmp(other));
    let by_texts = collation.compare(one.as_bytes(), other.as_bytes());
    assert_eq!(by_keys, by_texts, "{collation}: {one:?} and {other:?}");
    assert_eq!(by_texts == Ordering::Equal, one == other);
}

#[test]
fn languages_have_orders_of_their_own() {
    let sorted = |locale: &str, texts: &[&str]| {
        for pair in texts.windows(2) {
            let ordering = named(locale).compare(pair[0].as_bytes(), pair[1].as_bytes());
            assert!(ordering.is_lt(), "{locale}: {} before {}", pair[0], pair[1]);
        }
    };
    sorted(
        "de",
        &[
            "Ader", "ärgern", "Arznei", "Azur", "Straße", "Strauch", "zebra", "Zebra",
        ],
    );
    sorted("de-u-co-phonebk", &["Ada", "Ärger", "Affe"]);
    sorted("sv", &["zebra", "åre", "ärlig", "ödla"]);
    sorted("da", &["zebra", "ære", "øre", "ål"]);
    sorted("es", &["nulo", "ñame", "ola"]);
    sorted("es-u-co-trad", &["cz", "ch", "d"]);
    sorted("fr", &["cote", "coté", "côte", "côté"]);
    sorted("fr-CA", &["cote", "côte", "coté", "côté"]);
    sorted("ja", &["あ", "ア", "い", "亜"]);
    sorted("pl", &["la", "ła", "ma"]);
    // The root collation compares digits as text, so 10 precedes 2.
    sorted("und", &["", " ", "10", "2", "a", "A", "b"]);
}

/// Returns a strategy for texts that are likely to be neighbors in order. Their parts are accents,
/// contractions and ignored characters, which collations treat specially.
fn text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        "A",
        "ä",
        "a\u{308}",
        "å",
        "æ",
        "ch",
        "c",
        "CH",
        "ll",
        "ñ",
        "n\u{303}",
        "ss",
        "ß",
        "ẞ",
        "ij",
        "ĳ",
        "dž",
        "ö",
        "o",
        "e\u{301}",
        "é",
        "e",
        "\u{301}",
        "\u{200b}",
        "\0",
        "\u{1}",
        "-",
        " ",
        "'",
        "1",
        "10",
        "２",
        "あ",
        "ア",
        "ｱ",
        "ー",
        "亜",
        "中",
        "가",
        "ก",
        "เ",
        "ั",
        "И",
        "й",
        "ل",
        "\u{fffe}",
        "\u{ffff}",
        "\u{10ffff}",
        "😀",
        "z",
        "Z",
    ]);
    let near = prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat());
    prop_oneof![4 => near, 1 => any::<String>()]
}

proptest! {
    #[test]
    fn keys_are_in_the_order_of_texts(
        locale in prop::sample::select(LOCALES),
        one in text(),
        other in text(),
    ) {
        assert_in_order(named(locale), &one, &other);
    }

    #[test]
    fn sort_keys_order_invalid_text_as_comparisons_do(
        locale in prop::sample::select(LOCALES),
        one in prop::collection::vec(any::<u8>(), 0..20),
        other in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let collation = named(locale);
        let by_keys = collation.sort_key(&one).cmp(&collation.sort_key(&other)).then_with(|| one.cmp(&other));
        prop_assert_eq!(by_keys, collation.compare(&one, &other));
    }
}
