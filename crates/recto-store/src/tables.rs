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
