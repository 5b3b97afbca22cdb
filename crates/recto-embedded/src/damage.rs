//! Readable descriptions of damaged entries.

use recto_store::{StoreError, StoreErrorKind};

use crate::catalog::StoredTable;
use crate::error::corrupt;
use crate::row::Damage;

/// Returns the error of damage at `key`. It names the table and the key.
#[cold]
pub(crate) fn damaged(table: &StoredTable, key: &[u8], damage: Damage) -> StoreError {
    let (name, entry) = (table.definition.name(), table.entry);
    let at = hex(key);
    match damage {
        Damage::Checksum => corrupt(format!("a {entry} of table {name} is damaged (key {at})")),
        Damage::Layout => corrupt(format!(
            "a {entry} of table {name} has a valid checksum, but invalid content (key {at})"
        )),
        Damage::Version(version) => StoreError::new(
            StoreErrorKind::Version,
            format!(
                "a {entry} of table {name} has version {version}, which this release cannot read (key {at})"
            ),
        )
        .with_hint("open the store with the newer release that wrote it"),
    }
}

/// Maximum bytes of a key that an error shows.
const SHOWN_KEY_BYTES: usize = 64;

/// Returns a key in hexadecimal, cut to the maximum length.
pub(crate) fn hex(key: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for byte in &key[..key.len().min(SHOWN_KEY_BYTES)] {
        let _ = write!(text, "{byte:02x}");
    }
    if key.len() > SHOWN_KEY_BYTES {
        text.push('…');
    }
    text
}
