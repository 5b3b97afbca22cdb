//! Targets for byte-comparable keys, and for cells of every type.

use std::cmp::Ordering;
use std::sync::LazyLock;

use recto_model::collation::{Collation, LOCALES};
use recto_model::schema::parse_type;
use recto_model::{Direction, Type, cell as cells, json, key as encoded, order};

use crate::memory::{limited, limited_beside};

/// Memory limit of decoding a key part, in addition to the limit that grows with its length. Decoding a
/// decimal may write its zeros out, up to the maximum size of a cell in a key part. The arithmetic needs a
/// few times this size.
const FREE_BYTES: usize = 8 * encoded::MAX_KEY_PART_BYTES;

/// Types that contain other types, such as lists, and the other types that have no order.
static NESTED: LazyLock<Vec<Type>> = LazyLock::new(|| {
    let texts = [
        "duration",
        "list<int>",
        "list<text>",
        "set<varint>",
        "set<double>",
        "map<text, bigint>",
        "map<decimal, list<text>>",
        "tuple<int, text, double>",
        "vector<float, 3>",
        "vector<text, 2>",
        "list<frozen<map<inet, frozen<set<timeuuid>>>>>",
    ];
    texts
        .iter()
        .map(|text| parse_type(text, &[]).unwrap_or_else(|error| panic!("{text}: {error}")))
        .collect()
});

fn ordered(choice: u8) -> (&'static Type, Direction) {
    static TYPES: [Type; 18] = Type::ORDERABLE;
    let direction = if choice & 0x80 == 0 {
        Direction::Ascending
    } else {
        Direction::Descending
    };
    (&TYPES[usize::from(choice & 0x7f) % TYPES.len()], direction)
}

/// Target for keys. The first byte selects the type and the direction, and the second byte splits the
/// remaining bytes into two cells.
pub(crate) fn key(data: &[u8]) {
    let Some(([choice, split], rest)) = data.split_first_chunk() else {
        return;
    };
    let (ty, direction) = ordered(*choice);
    components(ty, direction, rest);
    let (left, right) = rest.split_at(rest.len() * usize::from(*split) / 256);
    sort_keys(*choice, left, right);
    let pair = (
        encoded_cell(ty, direction, left),
        encoded_cell(ty, direction, right),
    );
    if let (Some((left, left_key)), Some((right, right_key))) = pair {
        let mut expected = order::compare(ty, &left, &right);
        assert_eq!(order::compare(ty, &right, &left), expected.reverse());
        if direction == Direction::Descending {
            expected = expected.reverse();
        }
        assert_eq!(left_key.cmp(&right_key), expected, "{ty}: {left:?} and {right:?}");
        assert!(expected == Ordering::Equal || !left_key.starts_with(&right_key));
        assert!(expected == Ordering::Equal || !right_key.starts_with(&left_key));
    }
}

/// Checks that the sort keys of a collation have the order of their values, even if the values are not valid
/// text.
fn sort_keys(choice: u8, left: &[u8], right: &[u8]) {
    let collation = LOCALES.get(usize::from(choice) % LOCALES.len());
    let Some(collation) = collation.and_then(|locale| Collation::named(locale)) else {
        return;
    };
    let by_keys = collation.sort_key(left).cmp(&collation.sort_key(right));
    let expected = collation.compare(left, right);
    assert_eq!(
        by_keys.then_with(|| left.cmp(right)),
        expected,
        "{collation}: {left:?} and {right:?}"
    );
}

/// Checks that encoding a decoded cell gives the same bytes, and that decoding consumes only these bytes.
fn components(ty: &Type, direction: Direction, bytes: &[u8]) {
    let mut rest = bytes;
    let mut cell = vec![0xEE];
    let decoded = limited_beside(FREE_BYTES, bytes.len(), 16, || {
        encoded::decode(ty, direction, &mut rest, &mut cell)
    });
    if decoded.is_err() {
        assert_eq!(
            (rest, &cell[..]),
            (bytes, &[0xEE][..]),
            "an error takes and leaves nothing"
        );
        return;
    }
    let cell = &cell[1..];
    cells::validate(ty, cell).expect("what a key holds is a cell");
    let mut canonical = Vec::new();
    cells::canonical_key(ty, cell, &mut canonical).expect("it is a cell");
    assert_eq!(canonical, cell, "a key holds canonical cells");
    let mut again = Vec::new();
    encoded::encode(ty, direction, cell, &mut again).expect("it was decoded from a key");
    assert_eq!(again, &bytes[..bytes.len() - rest.len()]);
}

/// Encodes a cell as a key. Returns the cell and its key, or `None` if the bytes are not a cell of this type.
/// Checks that the key decodes to the cell's canonical form.
fn encoded_cell(ty: &Type, direction: Direction, cell: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut key = vec![0xEE];
    if encoded::encode(ty, direction, cell, &mut key).is_err() {
        assert_eq!(key, [0xEE], "an error appends nothing");
        return None;
    }
    key.remove(0);
    let (mut rest, mut decoded, mut canonical) = (&key[..], Vec::new(), Vec::new());
    encoded::decode(ty, direction, &mut rest, &mut decoded).expect("what was encoded decodes");
    assert!(rest.is_empty());
    cells::canonical_key(ty, cell, &mut canonical).expect("it was encoded");
    assert_eq!(decoded, canonical);
    assert_eq!(order::compare(ty, cell, &decoded), Ordering::Equal);
    Some((cell.to_vec(), key))
}

/// Target for cells. The first byte selects a type, and the remaining bytes may be a cell of this type.
pub(crate) fn cell(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else {
        return;
    };
    let place = usize::from(*choice) % (Type::ORDERABLE.len() + NESTED.len());
    let ty = match place.checked_sub(Type::ORDERABLE.len()) {
        Some(nested) => &NESTED[nested],
        None => ordered(place as u8).0,
    };
    let decoded = limited(bytes.len(), 64, || cells::decode(ty, bytes));
    assert_eq!(cells::validate(ty, bytes).is_ok(), decoded.is_ok());
    let Ok(value) = decoded else {
        return;
    };
    // Compare two encoded forms: encoding sorts sets and maps, so the input may differ from them.
    let mut written = Vec::new();
    if cells::encode(ty, &value, &mut written).is_err() {
        return;
    }
    let again = cells::decode(ty, &written).expect("what was encoded decodes");
    let mut lasting = Vec::new();
    cells::encode(ty, &again, &mut lasting).expect("it was encoded before");
    assert_eq!(lasting, written);
    as_text(ty, &again, &written);
}

/// Checks that the text form of a value is parsed as the same cell.
fn as_text(ty: &Type, value: &recto_model::Value, written: &[u8]) {
    let text = json::to_text(ty, value);
    let Ok(read) = json::from_text(ty, &text) else {
        // The limit for the text of a number is lower than that for its cell, so a very long text may not be
        // parseable.
        assert!(text.len() > 10_000, "{ty}: {text:?} does not read back");
        return;
    };
    let mut again = Vec::new();
    cells::encode(ty, &read, &mut again).expect("what JSON reads is a value of the type");
    assert_eq!(again, written, "{ty}: {text:?}");
}
