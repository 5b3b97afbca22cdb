//! Tests that keys keep their bytes, because users' stores contain keys. Lines of
//! `golden/keys-v1.txt` must never change, but new lines may be added. Each line has a type, a
//! direction, a value as record JSON, and the key in hex.

use std::collections::BTreeMap;

use recto_model::golden::bytes_of_hex;
use recto_model::key::KEY_FORMAT_VERSION;
use recto_model::{Direction, Type, cell, json, key};

const VERSION_1: &str = include_str!("../golden/keys-v1.txt");
const FORMATS: &str = include_str!("../../../../docs/format.md");

struct Line<'a> {
    text: &'a str,
    ty: Type,
    direction: Direction,
    cell: Vec<u8>,
    key: Vec<u8>,
}

impl<'a> Line<'a> {
    fn new(text: &'a str, [name, direction, value, hex]: [&str; 4]) -> Self {
        let ty = Type::ORDERABLE
            .into_iter()
            .find(|ty| ty.to_string() == name)
            .unwrap();
        let direction = match direction {
            "asc" => Direction::Ascending,
            "desc" => Direction::Descending,
            other => panic!("{other} is no direction"),
        };
        let value = json::from_json(&ty, &serde_json::from_str(value).unwrap())
            .unwrap()
            .unwrap();
        let mut cell = Vec::new();
        cell::encode(&ty, &value, &mut cell).unwrap();
        Line {
            text,
            ty,
            direction,
            cell,
            key: bytes_of_hex(hex),
        }
    }
}

fn lines() -> Vec<Line<'static>> {
    let lines = VERSION_1.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|text| Line::new(text, text.split('\t').collect::<Vec<_>>().try_into().unwrap()))
        .collect()
}

fn encoded(line: &Line<'_>) -> Vec<u8> {
    let mut encoded = Vec::new();
    key::encode(&line.ty, line.direction, &line.cell, &mut encoded).unwrap();
    encoded
}

#[test]
fn keys_of_version_1_stay_as_they_are() {
    assert_eq!(KEY_FORMAT_VERSION, 1);
    for line in lines() {
        assert_eq!(encoded(&line), line.key, "the bytes changed: {}", line.text);
        let (mut rest, mut decoded) = (&line.key[..], Vec::new());
        key::decode(&line.ty, line.direction, &mut rest, &mut decoded).unwrap();
        let mut canonical = Vec::new();
        cell::canonical_key(&line.ty, &line.cell, &mut canonical).unwrap();
        assert_eq!((decoded, rest.len()), (canonical, 0), "{}", line.text);
    }
}

#[test]
fn every_type_is_there_in_both_directions_and_in_order() {
    let mut groups: BTreeMap<(String, Direction), Vec<Vec<u8>>> = BTreeMap::new();
    for line in lines() {
        groups
            .entry((line.ty.to_string(), line.direction))
            .or_default()
            .push(line.key);
    }
    assert_eq!(groups.len(), 2 * Type::ORDERABLE.len());
    for ((name, direction), keys) in groups {
        // The file lists the values of each group in ascending order.
        let rising = keys
            .windows(2)
            .all(|pair| direction.apply(pair[0].cmp(&pair[1])).is_lt());
        assert!(rising, "{name} {direction:?}");
    }
}

#[test]
fn the_examples_in_the_documentation_are_right() {
    let (_, keys) = FORMATS.split_once("\n## Keys\n").unwrap();
    let (keys, _) = keys.split_once("\n## ").unwrap();
    let mut types = std::collections::BTreeSet::new();
    for text in keys
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains('`'))
    {
        let parts: Vec<&str> = text
            .trim_matches('|')
            .split(" | ")
            .map(|part| part.trim().trim_matches('`'))
            .collect();
        let key = parts[3].replace(' ', "");
        let line = Line::new(text, [parts[0], parts[1], parts[2], &key]);
        assert_eq!(encoded(&line), line.key, "{text}");
        types.insert(parts[0]);
    }
    assert_eq!(types.len(), Type::ORDERABLE.len());
}
