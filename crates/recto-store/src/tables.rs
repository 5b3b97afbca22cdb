//! Tables and limits.

use recto_model::{Cells, Table};

use crate::{StoreError, StoreErrorKind};

/// How making, dropping or emptying a table ended.
#[derive(Debug)]
pub enum TableOutcome {
    /// Done, or nothing was to be done.
    Done,
    /// May or may not be done.
    Unknown(StoreError),
}

/// The most bytes a key part may have, in either store: Cassandra stores the length in 16 bits.
pub const MAX_KEY_PART_BYTES: usize = 65_535;

/// What one request may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of one mutation (one partition's write).
    pub mutation_bytes: usize,
    /// The most bytes of a logged batch.
    pub batch_bytes: usize,
    /// The most bytes of a whole partition key, and of a whole clustering key.
    pub key_bytes: usize,
    /// Whether reads cost round trips, so that fetching too much in one is better than asking twice.
    pub remote: bool,
}

impl Limits {
    /// Checks the cells of a full partition key: no nulls, each part at most
    /// [`MAX_KEY_PART_BYTES`], the whole at most `key_bytes`, and a sole part not empty.
    pub fn check_partition(&self, table: &Table, partition: &Cells) -> Result<(), StoreError> {
        let refuse = |message: String| Err(StoreError::new(StoreErrorKind::Invalid, message));
        let columns = table.partition();
        if partition.len() != columns.len() {
            return refuse(format!(
                "table {} has {} partition columns, {} were given",
                table.name(),
                columns.len(),
                partition.len()
            ));
        }
        if columns.len() == 1 && partition.get(0).is_some_and(<[u8]>::is_empty) {
            return refuse(format!("partition column {} is empty", columns[0].name));
        }
        self.check_parts(columns, partition)
    }

    /// Checks the cells of a full clustering key: no nulls, each part at most
    /// [`MAX_KEY_PART_BYTES`], the whole at most `key_bytes`.
    pub fn check_clustering(&self, table: &Table, clustering: &Cells) -> Result<(), StoreError> {
        if clustering.len() != table.clustering().len() {
            return Err(StoreError::new(
                StoreErrorKind::Invalid,
                format!(
                    "table {} has {} clustering columns, {} were given",
                    table.name(),
                    table.clustering().len(),
                    clustering.len()
                ),
            ));
        }
        self.check_parts(table.clustering(), clustering)
    }

    pub(crate) fn check_parts(
        &self,
        columns: &[recto_model::Column],
        parts: &Cells,
    ) -> Result<(), StoreError> {
        let refuse = |message: String| Err(StoreError::new(StoreErrorKind::Invalid, message));
        for (column, part) in columns.iter().zip(parts.iter()) {
            match part {
                None => return refuse(format!("key column {} is null", column.name)),
                Some(part) if part.len() > MAX_KEY_PART_BYTES => {
                    return refuse(format!(
                        "key column {} has {} bytes, {MAX_KEY_PART_BYTES} are the most",
                        column.name,
                        part.len()
                    ));
                }
                Some(_) => {}
            }
        }
        if parts.byte_len() > self.key_bytes {
            return refuse(format!(
                "the key has {} bytes, {} are the most",
                parts.byte_len(),
                self.key_bytes
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use recto_model::table::{ColumnKind, TableOptions};
    use recto_model::{Column, Direction, Type};

    use super::*;

    const LIMITS: Limits = Limits {
        mutation_bytes: 1000,
        batch_bytes: 1500,
        key_bytes: 70_000,
        remote: false,
    };

    fn table(partition: usize) -> Table {
        let column = |name: String, kind| Column {
            name,
            ty: Type::Blob,
            kind,
        };
        let mut columns: Vec<Column> = (0..partition)
            .map(|index| column(format!("p{index}"), ColumnKind::Partition))
            .collect();
        let clustering = ColumnKind::Clustering(Direction::Ascending);
        columns.push(column("c".to_owned(), clustering));
        columns.push(column("d".to_owned(), clustering));
        Table::new("t", columns, TableOptions::default()).expect("the columns make a table")
    }

    fn refusal(result: Result<(), StoreError>) -> String {
        let error = result.expect_err("the key is refused");
        assert_eq!(error.kind(), StoreErrorKind::Invalid);
        error.to_string()
    }

    fn cells(parts: &[Option<usize>]) -> Cells {
        let bytes = vec![0; 80_000];
        parts
            .iter()
            .map(|part| part.map(|length| &bytes[..length]))
            .collect()
    }

    #[test]
    fn partitions() {
        let (one, two) = (table(1), table(2));
        let check = |table: &Table, parts: &[Option<usize>]| LIMITS.check_partition(table, &cells(parts));
        assert!(check(&one, &[Some(1)]).is_ok());
        assert!(check(&one, &[Some(MAX_KEY_PART_BYTES)]).is_ok());
        assert!(
            check(&two, &[Some(0), Some(0)]).is_ok(),
            "only a sole part must not be empty"
        );
        assert!(
            check(
                &two,
                &[Some(MAX_KEY_PART_BYTES), Some(70_000 - MAX_KEY_PART_BYTES)]
            )
            .is_ok()
        );
        assert_eq!(refusal(check(&one, &[Some(0)])), "partition column p0 is empty");
        assert_eq!(
            refusal(check(&one, &[])),
            "table t has 1 partition columns, 0 were given"
        );
        assert_eq!(
            refusal(check(&two, &[Some(1), Some(MAX_KEY_PART_BYTES + 1)])),
            "key column p1 has 65536 bytes, 65535 are the most"
        );
        assert_eq!(
            refusal(check(&two, &[Some(MAX_KEY_PART_BYTES), Some(4466)])),
            "the key has 70001 bytes, 70000 are the most"
        );
        assert_eq!(refusal(check(&two, &[Some(1), None])), "key column p1 is null");
    }

    #[test]
    fn clusterings() {
        let table = table(1);
        let check = |parts: &[Option<usize>]| LIMITS.check_clustering(&table, &cells(parts));
        assert!(check(&[Some(0), Some(0)]).is_ok());
        assert_eq!(refusal(check(&[None, Some(0)])), "key column c is null");
        assert_eq!(
            refusal(check(&[Some(1)])),
            "table t has 2 clustering columns, 1 were given"
        );
    }
}
