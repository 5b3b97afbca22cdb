//! Tests of the stored form of the registry of queues.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use recto_api::queues::DeduplicationScope;
use recto_model::golden::bytes_of_hex;

use super::stored::{VERSION, each, hex, lines, number, optional};
use crate::queues::limits::{DEFAULT_IN_FLIGHT, MAX_PLACES, MAX_VERSION};
use crate::queues::stored::{
    StoredError, decode_registry, decode_registry_row, encode_registry, encode_registry_row,
};
use crate::queues::{
    DeadLetters, Held, Place, PlaceRow, Queue, QueueId, QueueName, QueueOptions, Registry, StoreOptions,
    Tenure, Unit,
};

fn name(text: &str) -> QueueName {
    QueueName::new("name", text).expect("a name")
}

fn golden_row(text: &str) -> PlaceRow {
    let parts: Vec<_> = text.split(',').collect();
    let id = || QueueId(hex(parts[4]));
    let options = || QueueOptions {
        visibility_seconds: number(parts[7]),
        delay_seconds: number(parts[8]),
        body_bytes: number(parts[9]),
        shards: number(parts[10]),
        is_ordered: parts[11] != "unordered",
        deduplication: match parts[11] {
            "per-group" => DeduplicationScope::Group,
            _ => DeduplicationScope::Queue,
        },
        retention_seconds: optional(parts[12]).map(number),
        dead_letters: optional(parts[13]).map(|attempts| DeadLetters {
            queue: name(parts[14]),
            attempts: number(attempts),
        }),
        max_in_flight: parts.get(15).map_or(DEFAULT_IN_FLIGHT, |most| number(most)),
        is_paused: parts.get(16) == Some(&"paused"),
    };
    let held = match parts[3] {
        "free" => Held::Free,
        "deleting" => Held::Deleting {
            id: id(),
            name: name(parts[5]),
            since: number(parts[6]),
        },
        "unit" => Held::Unit(Unit {
            id: id(),
            name: name(parts[5]),
            begun: number(parts[6]),
            queue: QueueId(hex(parts[7])),
        }),
        _ => Held::Queue(Queue {
            id: id(),
            name: name(parts[5]),
            created: number(parts[6]),
            options: options(),
        }),
    };
    PlaceRow {
        tenure: Tenure(number(parts[0])),
        changed: number(parts[1]),
        shards: number(parts[2]),
        held,
    }
}

/// Returns the registries of the golden files, each with its bytes, and the bytes of its rows.
fn golden() -> Vec<(Registry, Vec<u8>, Vec<Vec<u8>>)> {
    let mut registries: Vec<(Registry, Vec<u8>, Vec<Vec<u8>>)> = Vec::new();
    let of_each = [
        include_str!("golden/registry-v1.txt"),
        include_str!("golden/registry-v2.txt"),
        include_str!("golden/registry-v3.txt"),
    ];
    for line in of_each.into_iter().flat_map(lines) {
        if line[0] == "row" {
            let (registry, _, rows) = registries.last_mut().expect("rows follow their registry");
            let place = Place(rows.len() as u32);
            registry.places.insert(place, Arc::new(golden_row(line[1])));
            rows.push(bytes_of_hex(line[2]));
            continue;
        }
        let options = optional(line[1]).map(|text| {
            let parts = each(text, ',');
            StoreOptions {
                rotation_seconds: number(parts[0]),
                grace_seconds: number(parts[1]),
                tables: number(parts[2]),
                units: number(parts[3]),
            }
        });
        let registry = Registry {
            version: VERSION,
            options,
            data_centre: optional(line[2]).map(Arc::from),
            places: BTreeMap::new(),
        };
        registries.push((registry, bytes_of_hex(line[4]), Vec::new()));
    }
    registries
}

fn by_place(rows: &[Vec<u8>]) -> impl Iterator<Item = (Place, &[u8])> {
    (0..).map(Place).zip(rows.iter().map(|row| &row[..]))
}

#[test]
fn reads_and_writes_each_golden_version() {
    let golden = golden();
    for (registry, bytes, rows) in &golden {
        assert_eq!(encode_registry(registry), *bytes);
        let written: Vec<_> = registry
            .places()
            .map(|(_, row)| encode_registry_row(row))
            .collect();
        assert_eq!(written, *rows);
        let decoded = decode_registry(VERSION, bytes, by_place(rows));
        assert_eq!(decoded.as_ref(), Ok(registry));
    }
    let rows = golden.iter().map(|(.., rows)| rows.len()).sum::<usize>();
    assert_eq!((golden.len(), rows), (7, 13));
}

/// Checks that the bytes are invalid, or that the decoded value is encoded as the same bytes.
fn is_strict(bytes: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(registry) = decode_registry(VERSION, bytes, []) {
        prop_assert_eq!(encode_registry(&registry), bytes);
    }
    if let Ok(row) = decode_registry_row(bytes) {
        prop_assert_eq!(encode_registry_row(&row), bytes);
    }
    Ok(())
}

#[test]
fn detects_truncated_extended_and_altered_bytes() -> Result<(), TestCaseError> {
    for (_, bytes, rows) in golden() {
        for bytes in rows.into_iter().chain([bytes]) {
            for length in 0..bytes.len() {
                is_strict(&bytes[..length])?;
                assert!(decode_registry_row(&bytes[..length]).is_err());
            }
            let longer = [&bytes[..], &[0]].concat();
            assert!(decode_registry(VERSION, &longer, []).is_err());
            assert!(decode_registry_row(&longer).is_err());
            // Try other format versions here, because no single bit flip turns version 1 into 2.
            for version in 0..=4 {
                is_strict(&[&[version], &bytes[1..]].concat())?;
            }
            for bit in 0..bytes.len() * 8 {
                let mut altered = bytes.clone();
                altered[bit / 8] ^= 1 << (bit % 8);
                is_strict(&altered)?;
            }
        }
    }
    Ok(())
}

fn is_damaged(registry: &Registry) {
    let rows: Vec<_> = registry
        .places()
        .map(|(_, row)| encode_registry_row(row))
        .collect();
    let decoded = decode_registry(registry.version, &encode_registry(registry), by_place(&rows));
    let error = decoded.expect_err("no registry is like that");
    assert!(matches!(error, StoredError::Damaged { .. }), "{error}");
}

fn queue(row: &mut PlaceRow) -> &mut Queue {
    match &mut row.held {
        Held::Queue(queue) => queue,
        _ => panic!("a queue"),
    }
}

fn unit(row: &mut PlaceRow) -> &mut Unit {
    match &mut row.held {
        Held::Unit(unit) => unit,
        _ => panic!("a unit"),
    }
}

#[test]
fn rows_that_are_not_of_one_registry_are_refused() {
    let (registry, bytes, rows) = golden().swap_remove(3);
    let decoded = |version, rows: &[Vec<u8>]| decode_registry(version, &bytes, by_place(rows));
    assert!(decoded(VERSION, &rows).is_ok());
    // The stored version of the registry changed a row, so the row does not fit an earlier version.
    assert!(decoded(VERSION - 1, &rows).is_err());
    assert!(decoded(VERSION, &rows[..5]).is_err());
    assert!(decoded(VERSION, &[&rows[..], &rows[2..3]].concat()).is_err());
    let apart = by_place(&rows).map(|(place, row)| (Place(place.0 * 2), row));
    assert!(decode_registry(VERSION, &bytes, apart).is_err());
    for version in [MAX_VERSION, u64::MAX] {
        assert!(decoded(version, &rows).is_err());
    }

    let changes = |place: u32, change: &dyn Fn(&mut PlaceRow)| {
        let mut changed = registry.clone();
        change(Arc::make_mut(
            changed.places.get_mut(&Place(place)).expect("a place"),
        ));
        is_damaged(&changed);
    };
    changes(1, &|row| queue(row).name = name("orders"));
    changes(1, &|row| queue(row).id = QueueId(8));
    changes(1, &|row| row.held = Held::Free);
    changes(1, &|row| row.shards = 0);
    changes(1, &|row| row.shards = 65);
    changes(0, &|row| row.tenure = Tenure(0));
    changes(0, &|row| row.tenure = Tenure(77));
    changes(0, &|row| queue(row).options.visibility_seconds = 43_201);
    changes(0, &|row| queue(row).options.shards = 65);
    changes(1, &|row| queue(row).options.shards = 5);
    changes(6, &|row| row.tenure = Tenure(61));
    changes(6, &|row| unit(row).queue = QueueId(5));
    changes(6, &|row| unit(row).queue = unit(row).id);
    changes(6, &|row| unit(row).id = QueueId(8));
    changes(7, &|row| unit(row).id = QueueId(0x21));
    changes(7, &|row| unit(row).name = name("2026-11"));
    changes(2, &|row| row.tenure = Tenure(9));
    changes(3, &|row| row.tenure = Tenure(74));
    let without = Registry {
        options: None,
        ..registry.clone()
    };
    is_damaged(&without);
    let many = 0..=MAX_PLACES as u32;
    is_damaged(&Registry {
        places: many
            .map(|place| (Place(place), registry.places[&Place(2)].clone()))
            .collect(),
        ..registry
    });
}

fn names() -> impl Strategy<Value = QueueName> {
    "[A-Za-z0-9_-]{1,75}".prop_map(|text| name(&text))
}

fn options() -> impl Strategy<Value = QueueOptions> {
    let numbers = (1..=43_200_u32, 0..=900_u32, 1..=64_u16, 1..=1_048_576_u32);
    let retention = proptest::option::of(901..=31_536_000_u32);
    (numbers, retention, any::<[bool; 2]>()).prop_map(
        |(
            (visibility_seconds, delay_seconds, shards, body_bytes),
            retention_seconds,
            [is_ordered, is_paused],
        )| {
            let options = if is_ordered {
                QueueOptions::ordered()
            } else {
                QueueOptions::default()
            };
            QueueOptions {
                visibility_seconds,
                delay_seconds,
                retention_seconds,
                shards,
                body_bytes,
                is_paused,
                ..options
            }
        },
    )
}

fn held() -> impl Strategy<Value = Held> {
    let queue = (
        names(),
        any::<i64>(),
        options(),
        proptest::option::of(1..=1_000_u16),
    );
    let queue = queue.prop_map(|(name, created, options, attempts)| {
        // The name is a placeholder. The name of another queue replaces it when all queues of the
        // registry are known.
        let queue = QueueName::new("name", "x").expect("a name");
        let dead_letters = attempts.map(|attempts| DeadLetters { queue, attempts });
        let options = QueueOptions {
            dead_letters,
            ..options
        };
        let id = QueueId(0);
        Held::Queue(Queue {
            id,
            name,
            created,
            options,
        })
    });
    let deleting = (any::<u128>(), names(), any::<i64>());
    let deleting = deleting.prop_map(|(id, name, since)| Held::Deleting {
        id: QueueId(id),
        name,
        since,
    });
    let unit = (names(), any::<i64>()).prop_map(|(name, begun)| {
        let (id, queue) = (QueueId(0), QueueId(0));
        Held::Unit(Unit {
            id,
            name,
            queue,
            begun,
        })
    });
    prop_oneof![Just(Held::Free), queue, deleting, unit]
}

fn registries() -> impl Strategy<Value = Registry> {
    let rows = proptest::collection::vec((2..=VERSION, 0..VERSION, held()), 1..8);
    let store = (10..=604_800_u32, 1..=86_400_u32, 2..=24_u8, 0..=24_u8);
    (store, proptest::option::of("\\PC{1,60}"), rows).prop_map(|(store, data_centre, rows)| {
        let (rotation_seconds, grace_seconds, tables, units) = store;
        let mut registry = Registry {
            version: VERSION,
            options: Some(StoreOptions {
                rotation_seconds,
                grace_seconds,
                tables,
                units,
            }),
            data_centre: data_centre.map(Arc::from),
            places: BTreeMap::new(),
        };
        let first = rows.iter().find_map(|(.., held)| match held {
            Held::Queue(queue) => Some(queue.name.clone()),
            _ => None,
        });
        let whose = rows.iter().position(|(.., held)| matches!(held, Held::Queue(_)));
        for (place, (changed, before, mut held)) in (0..).zip(rows) {
            let tenure = match &mut held {
                Held::Deleting { .. } => changed,
                Held::Free => before.clamp(1, changed - 1),
                // The temporary queue belongs to the first queue, if there is one.
                Held::Unit(unit) => {
                    unit.id = QueueId(u128::from(place));
                    unit.queue = QueueId(whose.map_or(0, |place| place as u128));
                    changed
                }
                Held::Queue(queue) => {
                    queue.id = QueueId(u128::from(place));
                    if let Some((first, dead)) = first.clone().zip(queue.options.dead_letters.as_mut()) {
                        dead.queue = first;
                    }
                    let has_other = first.as_ref() != Some(&queue.name);
                    queue.options.dead_letters = queue.options.dead_letters.take().filter(|_| has_other);
                    before.clamp(1, changed)
                }
            };
            let row = PlaceRow {
                tenure: Tenure(tenure),
                changed,
                shards: 64,
                held,
            };
            registry.places.insert(Place(place), Arc::new(row));
        }
        registry
    })
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_read(
        version in 0..3_u8,
        rest in proptest::collection::vec(prop_oneof![Just(0_u8), 0..9_u8, any::<u8>()], 0..90),
    ) {
        is_strict(&rest)?;
        is_strict(&[&[version][..], &rest].concat())?;
    }

    #[test]
    fn decodes_encoded_values(registry in registries()) {
        let names: std::collections::BTreeSet<_> = registry.queues().map(|(.., queue)| &queue.name).collect();
        prop_assume!(names.len() == registry.queues().count() && !names.is_empty());
        let units: std::collections::BTreeSet<_> = registry.units().map(|(.., unit)| &unit.name).collect();
        prop_assume!(units.len() == registry.units().count());
        let rows: Vec<_> = registry.places().map(|(_, row)| encode_registry_row(row)).collect();
        let decoded = decode_registry(VERSION, &encode_registry(&registry), by_place(&rows));
        prop_assert_eq!(decoded, Ok(registry));
    }
}
