//! Position at which a token scan stopped, and its encoding as bytes.

use recto_model::{Cells, Table};
use recto_store::{ScanPosition, StoreError, StoreErrorKind};

/// Version of the encoding of scan positions, which is the first byte of each.
const POSITION_VERSION: u8 = 1;

/// Position at which a scan stopped: after the row with this key. If `clustering` is empty, after
/// the whole partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) token: i64,
    pub(crate) partition: Cells,
    pub(crate) clustering: Cells,
}

fn malformed() -> StoreError {
    StoreError::new(
        StoreErrorKind::Invalid,
        "the token range or scan position does not belong to this store and table",
    )
    .with_hint("use ranges from token_ranges and positions from scan, on the same table")
}

pub(crate) fn token_of(bytes: &[u8]) -> Result<Option<i64>, StoreError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let bytes: [u8; 8] = bytes.try_into().map_err(|_| malformed())?;
    Ok(Some(i64::from_be_bytes(bytes)))
}

/// Encodes a position: version, token, then each cell of the key after its length in 4 bytes. The
/// encoding contains either all clustering cells or none.
pub(crate) fn encode_position(position: &Position) -> ScanPosition {
    let mut bytes = vec![POSITION_VERSION];
    bytes.extend_from_slice(&position.token.to_be_bytes());
    for cell in position.partition.iter().chain(position.clustering.iter()) {
        let cell = cell.unwrap_or_default();
        bytes.extend_from_slice(&(cell.len() as u32).to_be_bytes());
        bytes.extend_from_slice(cell);
    }
    ScanPosition(bytes)
}

pub(crate) fn decode_position(table: &Table, bytes: &[u8]) -> Result<Position, StoreError> {
    let (version, bytes) = bytes.split_first().ok_or_else(malformed)?;
    if *version != POSITION_VERSION {
        return Err(StoreError::new(
            StoreErrorKind::Version,
            format!("the scan position has version {version}; this release reads version {POSITION_VERSION}"),
        )
        .with_hint("restart the scan of this range"));
    }
    let (token, mut bytes) = bytes.split_first_chunk::<8>().ok_or_else(malformed)?;
    let mut cells = Cells::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let (cell, rest) = rest.split_at_checked(length).ok_or_else(malformed)?;
        cells.push(Some(cell));
        bytes = rest;
    }
    let partition_len = table.partition().len();
    if !bytes.is_empty() || (cells.len() != partition_len && cells.len() != table.key_len()) {
        return Err(malformed());
    }
    Ok(Position {
        token: i64::from_be_bytes(*token),
        partition: cells.iter().take(partition_len).collect(),
        clustering: cells.iter().skip(partition_len).collect(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use recto_model::table::{ColumnKind, Direction, TableOptions};
    use recto_model::{Column, Type};

    #[test]
    fn positions_survive_and_damage_is_refused() {
        let column = |name: &str, kind| Column {
            name: name.to_owned(),
            ty: Type::Blob,
            kind,
        };
        let table = Table::new(
            "t",
            vec![
                column("p", ColumnKind::Partition),
                column("c", ColumnKind::Clustering(Direction::Ascending)),
            ],
            TableOptions::default(),
        )
        .unwrap();
        // Earlier releases wrote these positions, so every later release must read them.
        let mut golden = include_str!("golden/scan-position-v1.txt").lines();
        for clustering in [Cells::new(), [Some(&b""[..])].into_iter().collect()] {
            let position = Position {
                token: -7,
                partition: [Some(&b"key"[..])].into_iter().collect(),
                clustering,
            };
            let bytes = encode_position(&position).0;
            assert_eq!(decode_position(&table, &bytes).unwrap(), position);
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(Some(&*hex), golden.next());
            for length in 0..bytes.len() {
                let cut = decode_position(&table, &bytes[..length]);
                assert!(cut.is_err() || cut.unwrap() != position);
            }
        }
        assert!(decode_position(&table, &[9, 0]).is_err());
    }
}
