//! Storage of partition keys that may be empty: Cassandra rejects an empty partition key of one
//! column.
//!
//! In a table that [allows empty partition keys](Table::allows_empty_partition), Recto appends one
//! NUL byte to each key that consists only of NUL bytes. The empty key is such a key. All other
//! keys are stored unchanged. The stored keys have the order of the keys, and two different keys
//! never have the same stored form: `docs/format.md`, "Empty partition keys".

use std::borrow::Cow;

use recto_model::Table;

/// Returns whether the partition keys of a table are escaped, so that they may be empty.
pub(crate) fn is_escaped(table: &Table) -> bool {
    table.partition().len() == 1 && table.allows_empty_partition()
}

/// Returns the bytes that Cassandra stores for a partition key.
pub(crate) fn escaped(key: &[u8]) -> Cow<'_, [u8]> {
    if is_nul(key) {
        Cow::Owned(vec![0; key.len() + 1])
    } else {
        Cow::Borrowed(key)
    }
}

/// Returns the number of bytes that escaping added at the end of a stored partition key: 0 or 1.
pub(crate) fn added_bytes(stored: &[u8]) -> usize {
    usize::from(!stored.is_empty() && is_nul(stored))
}

fn is_nul(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key_of(stored: &[u8]) -> &[u8] {
        &stored[..stored.len() - added_bytes(stored)]
    }

    #[test]
    fn keys_are_stored_as_every_release_reads_them() {
        let golden = include_str!("golden/partition-keys-v2.txt");
        let lines: Vec<_> = golden.lines().filter_map(|line| line.split_once(' ')).collect();
        for (key, stored) in &lines {
            let bytes = |text: &str| -> Vec<u8> { text.bytes().map(|byte| byte - b'0').collect() };
            let (key, stored) = (bytes(key), bytes(stored));
            assert_eq!(*escaped(&key), *stored);
            assert_eq!(key_of(&stored), key);
        }
        assert_eq!(lines.len(), 6);
    }

    proptest! {
        #[test]
        fn stored_keys_are_read_back_and_have_the_order_of_keys(
            keys in prop::collection::vec(prop::collection::vec(0..3_u8, 0..5), 2),
        ) {
            let stored: Vec<_> = keys.iter().map(|key| escaped(key)).collect();
            prop_assert_eq!(key_of(&stored[0]), &*keys[0]);
            prop_assert!(!stored[0].is_empty());
            prop_assert_eq!(stored[0].cmp(&stored[1]), keys[0].cmp(&keys[1]));
        }
    }
}
