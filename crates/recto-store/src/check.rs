//! Checks for requests that every store must reject.
//!
//! A store first calls the check of a request, and rejects the request if the check fails. The embedded store
//! and Cassandra therefore reject the same requests, before anything is sent.

use std::collections::HashSet;

use recto_model::table::{ColumnKind, WriteKind};
use recto_model::{Bound, Cells, Column, Slice, Table};

use crate::{
    Cas, CasCondition, Limits, Mutation, Operation, PartitionWrite, PointRead, RowAddress, Stamp, StoreError,
    StoreErrorKind, StoreKind, WriteOptions,
};

/// Number of bytes that each mutation counts in addition to its content, for [`Limits::mutation_bytes`].
pub const MUTATION_OVERHEAD_BYTES: usize = 32;

/// Number of bytes that each cell counts in addition to its content, for [`Limits::mutation_bytes`].
pub const CELL_OVERHEAD_BYTES: usize = 16;

/// Maximum number of conditional and plain writes of one transaction.
pub const MAX_TRANSACTION_WRITES: usize = 131_072;

/// Maximum time after which written data expires, in seconds: 20 years, the maximum of Cassandra.
pub const MAX_TTL_SECONDS: u32 = 630_720_000;

fn invalid(message: String) -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, message)
}

/// Returns the error for a transaction on a store that has no transactions.
pub(crate) fn no_transactions(kind: StoreKind) -> StoreError {
    invalid(format!(
        "the {kind} store does not support transactions of several partitions"
    ))
    .with_hint("write conditionally to one partition at a time")
}

fn require(holds: bool, message: impl FnOnce() -> String) -> Result<(), StoreError> {
    if holds { Ok(()) } else { Err(invalid(message())) }
}

impl Limits {
    /// Checks that the store supports the options of a table that is to be created.
    pub fn check_table(&self, table: &Table) -> Result<(), StoreError> {
        // A store with transactions accepts the option `buckets`, but keeps partitions whole. Above a store
        // without transactions, another layer divides partitions into buckets, and creates tables without
        // this option.
        require(self.transactions || table.options().buckets.is_none(), || {
            format!(
                "table {} has buckets, which this store does not support",
                table.name()
            )
        })
    }

    /// Checks one plain write: its keys, numbers of cells, timestamps, expiries and size. The write must not
    /// contain a column that only [`Cas`] writes.
    pub fn check_write(&self, write: &PartitionWrite) -> Result<(), StoreError> {
        check_inserts(std::slice::from_ref(write))?;
        self.check_alone(write, Some(WriteKind::Plain))
    }

    /// Checks the properties of a write that do not depend on the other writes of its call. If `kind` is
    /// given, the write may contain only columns of this kind.
    fn check_alone(&self, write: &PartitionWrite, kind: Option<WriteKind>) -> Result<(), StoreError> {
        self.check_partition(&write.table, &write.partition)?;
        for mutation in &write.mutations {
            require(mutation.stamp.is_some(), || {
                format!(
                    "a plain write to table {} has no write timestamp",
                    write.table.name()
                )
            })?;
            // The embedded store and Cassandra give this timestamp to cells that were never written
            // (Cassandra: `NO_TIMESTAMP`), so no write may have it.
            require(mutation.stamp != Some(Stamp(i64::MIN)), || {
                format!(
                    "a write to table {} has the reserved write timestamp",
                    write.table.name()
                )
            })?;
            self.check_mutation(&write.table, mutation, kind)?;
        }
        let largest = write.mutations.iter().map(Mutation::byte_len).max().unwrap_or(0);
        self.check_mutation_size(&write.table, write.byte_len(), largest)
    }

    /// Checks the writes of one [`write_many`](crate::Store::write_many): each as
    /// [`check_write`](Self::check_write) does, and for `logged` writes their total size.
    pub fn check_writes(&self, writes: &[PartitionWrite], logged: bool) -> Result<(), StoreError> {
        check_inserts(writes)?;
        let mut together = 0;
        for write in writes {
            self.check_alone(write, Some(WriteKind::Plain))?;
            together += write.byte_len();
        }
        require(!logged || together <= self.batch_bytes, || {
            format!(
                "the logged batch has {together} bytes; at most {} are allowed",
                self.batch_bytes
            )
        })
        .map_err(|error| error.with_hint("write smaller batches or single records, or use `load` for a file"))
    }

    /// Checks one conditional write. It must satisfy these rules:
    ///
    /// - It has at least one condition and one mutation.
    /// - Its keys and numbers of cells are valid.
    /// - Its mutations have no timestamps.
    /// - It has only puts, patches of at least one column, and row deletions.
    /// - It writes each row once, and it writes each row that has a condition.
    /// - It contains no column of plain writes.
    /// - Its size is within the limit.
    pub fn check_cas(&self, cas: &Cas) -> Result<(), StoreError> {
        require(!cas.mutations.is_empty(), || {
            format!(
                "a conditional write to table {} needs a mutation",
                cas.table.name()
            )
        })?;
        self.check_conditional(cas, true)
    }

    /// Checks one transaction of a store that supports transactions. It must satisfy these rules:
    ///
    /// - Each conditional write satisfies [`check_cas`](Self::check_cas), but conditions need no mutation.
    /// - A partition has at most one conditional write.
    /// - Each plain write satisfies [`check_write`](Self::check_write).
    /// - All writes may read and write columns of either kind.
    /// - The transaction is not written row by row.
    /// - The number of writes and their total size are within the limits.
    pub fn check_transaction(
        &self,
        conditional: &[Cas],
        plain: &[PartitionWrite],
        options: &WriteOptions,
    ) -> Result<(), StoreError> {
        require(!options.row_by_row, || {
            "a transaction is atomic and cannot be written row by row".to_owned()
        })?;
        let writes = conditional.len() + plain.len();
        require(writes <= MAX_TRANSACTION_WRITES, || {
            format!("the transaction has {writes} writes; at most {MAX_TRANSACTION_WRITES} are allowed")
        })?;
        let mut partitions = HashSet::new();
        let mut bytes = 0;
        for cas in conditional {
            self.check_conditional(cas, false)?;
            bytes += cas.byte_len() + cas.conditions.iter().map(CasCondition::byte_len).sum::<usize>();
            require(partitions.insert((cas.table.name(), &cas.partition)), || {
                format!(
                    "a transaction has two conditional writes to one partition of table {}",
                    cas.table.name()
                )
            })?;
        }
        check_inserts(plain)?;
        plain.iter().try_for_each(|write| self.check_alone(write, None))?;
        bytes += plain.iter().map(PartitionWrite::byte_len).sum::<usize>();
        require(bytes <= self.batch_bytes, || {
            format!(
                "the transaction has {bytes} bytes; at most {} are allowed",
                self.batch_bytes
            )
        })
        .map_err(|error| error.with_hint("write less in one transaction"))
    }

    /// Checks one conditional write. If it is `alone`, which means outside a transaction, it must write the
    /// rows of its conditions, and must use only columns of conditional writes.
    fn check_conditional(&self, cas: &Cas, alone: bool) -> Result<(), StoreError> {
        let table = &cas.table;
        let kind = alone.then_some(WriteKind::Cas);
        self.check_partition(table, &cas.partition)?;
        require(!cas.conditions.is_empty(), || {
            format!("a conditional write to table {} needs a condition", table.name())
        })?;
        let mut rows: Vec<&Cells> = Vec::new();
        for mutation in &cas.mutations {
            require(mutation.stamp.is_none(), || {
                format!(
                    "a conditional write to table {} has a write timestamp",
                    table.name()
                )
            })?;
            self.check_mutation(table, mutation, kind)?;
            let row = mutation.operation.row();
            require(!mutation.operation.is_bare_patch(), || {
                format!(
                    "a conditional write to table {} patches a row, but names no column",
                    table.name()
                )
            })?;
            require(!row.is_some_and(|row| rows.contains(&row)), || {
                format!(
                    "a conditional write to table {} writes one row twice",
                    table.name()
                )
            })?;
            rows.extend(row);
        }
        for condition in &cas.conditions {
            let columns = match &condition.row {
                RowAddress::Static => table.statics(),
                RowAddress::Row(row) => {
                    self.check_clustering(table, row)?;
                    require(!alone || rows.contains(&row), || {
                        format!(
                            "a condition on a row of table {} needs a mutation of that row",
                            table.name()
                        )
                    })?;
                    table.regular()
                }
            };
            check_column(table, columns, condition.column)
                .and_then(|()| check_kind(table, &columns[usize::from(condition.column)], kind))?;
        }
        self.check_mutation_size(table, cas.byte_len(), cas.byte_len())
    }

    /// Checks a slice: its partition, its edges (prefixes of the clustering columns, without nulls) and its
    /// limit.
    pub fn check_slice(&self, slice: &Slice) -> Result<(), StoreError> {
        self.check_partition(&slice.table, &slice.partition)?;
        self.check_bound(&slice.table, &slice.from)?;
        self.check_bound(&slice.table, &slice.to)?;
        require(slice.limit > 0, || {
            "the limit of a slice must not be 0".to_owned()
        })
    }

    /// Checks the full key of a point read.
    pub fn check_point(&self, read: &PointRead) -> Result<(), StoreError> {
        self.check_partition(&read.table, &read.partition)?;
        self.check_clustering(&read.table, &read.clustering)
    }

    fn check_bound(&self, table: &Table, bound: &Bound) -> Result<(), StoreError> {
        let cells = bound.cells();
        require(cells.len() <= table.clustering().len(), || {
            format!(
                "an edge in table {} has {} cells, but there are only {} clustering columns",
                table.name(),
                cells.len(),
                table.clustering().len()
            )
        })?;
        self.check_parts(table.clustering(), cells)
    }

    /// Checks the lifetime, the keys, the columns and the cells of a mutation. If `kind` is given, the
    /// mutation may contain only columns of this kind.
    fn check_mutation(
        &self,
        table: &Table,
        mutation: &Mutation,
        kind: Option<WriteKind>,
    ) -> Result<(), StoreError> {
        if let Some(seconds) = mutation.ttl_seconds {
            require((1..=MAX_TTL_SECONDS).contains(&seconds), || {
                format!("an expiry of {seconds} s is not between 1 and {MAX_TTL_SECONDS}")
            })?;
        }
        match &mutation.operation {
            Operation::Put {
                clustering,
                cells,
                replace,
            } => {
                self.check_clustering(table, clustering)?;
                require(cells.len() == table.regular().len(), || {
                    arity(table, "regular", table.regular().len(), cells.len())
                })?;
                for (column, cell) in table.regular().iter().zip(cells.iter()) {
                    if *replace || cell.is_some() {
                        check_kind(table, column, kind)?;
                    }
                }
                Ok(())
            }
            Operation::Patch {
                clustering,
                columns,
                cells,
            } => {
                self.check_clustering(table, clustering)?;
                check_patch(table, table.regular(), columns, cells, kind)
            }
            Operation::PatchStatic { columns, cells } => {
                require(!columns.is_empty(), || {
                    format!(
                        "a write of static columns of table {} names no column",
                        table.name()
                    )
                })?;
                check_patch(table, table.statics(), columns, cells, kind)
            }
            Operation::DeleteRow { clustering } => {
                self.check_clustering(table, clustering)?;
                check_kinds(table, table.regular(), kind)
            }
            Operation::DeleteRange { from, to } => {
                check_plain(table, mutation)?;
                self.check_bound(table, from)?;
                self.check_bound(table, to)?;
                check_kinds(table, table.regular(), kind)
            }
            Operation::DeletePartition => {
                check_plain(table, mutation)?;
                check_kinds(table, table.statics(), kind)?;
                check_kinds(table, table.regular(), kind)
            }
        }
    }

    /// Checks the size of a write to one partition, whose largest mutation has `largest` bytes.
    fn check_mutation_size(&self, table: &Table, bytes: usize, largest: usize) -> Result<(), StoreError> {
        require(bytes <= self.mutation_bytes, || {
            format!(
                "the write to table {} has {bytes} bytes; at most {} are allowed",
                table.name(),
                self.mutation_bytes
            )
        })
        .map_err(|error| {
            error.with_hint(if largest <= self.mutation_bytes {
                "write smaller batches: each change alone is small enough"
            } else {
                "store smaller records, or keep large values elsewhere"
            })
        })
    }
}

/// Rejects inserts together with deletions of ranges or partitions. The result of such an insert would depend
/// on these deletions, which a conflict could not undo.
fn check_inserts(writes: &[PartitionWrite]) -> Result<(), StoreError> {
    let operations = || {
        writes
            .iter()
            .flat_map(|write| &write.mutations)
            .map(|mutation| &mutation.operation)
    };
    let ranges = |operation: &Operation| {
        matches!(
            operation,
            Operation::DeleteRange { .. } | Operation::DeletePartition
        )
    };
    let inserts = |operation: &Operation| matches!(operation, Operation::Put { replace: false, .. });
    require(!(operations().any(ranges) && operations().any(inserts)), || {
        "one write inserts rows and deletes a range or a partition".to_owned()
    })
}

fn arity(table: &Table, kind: &str, columns: usize, cells: usize) -> String {
    format!(
        "table {} has {columns} {kind} columns, but the request has {cells} cells",
        table.name()
    )
}

fn check_column(table: &Table, columns: &[Column], column: u16) -> Result<(), StoreError> {
    require(usize::from(column) < columns.len(), || {
        format!(
            "table {} has {} such columns, but the request names number {column}",
            table.name(),
            columns.len()
        )
    })
}

fn check_patch(
    table: &Table,
    of: &[Column],
    columns: &[u16],
    cells: &Cells,
    kind: Option<WriteKind>,
) -> Result<(), StoreError> {
    require(columns.len() == cells.len(), || {
        format!(
            "a write to table {} names {} columns, but has {} cells",
            table.name(),
            columns.len(),
            cells.len()
        )
    })?;
    for (index, column) in columns.iter().enumerate() {
        check_column(table, of, *column)?;
        require(!columns[..index].contains(column), || {
            format!(
                "a write to table {} names column {} twice",
                table.name(),
                of[usize::from(*column)].name
            )
        })?;
        check_kind(table, &of[usize::from(*column)], kind)?;
    }
    Ok(())
}

fn check_plain(table: &Table, mutation: &Mutation) -> Result<(), StoreError> {
    require(mutation.stamp.is_some(), || {
        format!(
            "a conditional write to table {} deletes a range or a partition",
            table.name()
        )
    })
}

fn check_kinds(table: &Table, columns: &[Column], kind: Option<WriteKind>) -> Result<(), StoreError> {
    columns
        .iter()
        .try_for_each(|column| check_kind(table, column, kind))
}

fn check_kind(table: &Table, column: &Column, kind: Option<WriteKind>) -> Result<(), StoreError> {
    let (ColumnKind::Static(declared) | ColumnKind::Regular(declared), Some(kind)) = (column.kind, kind)
    else {
        return Ok(());
    };
    require(declared == kind, || {
        let (declared, other) = match declared {
            WriteKind::Plain => ("plain", "a conditional write"),
            WriteKind::Cas => ("conditional", "a plain write"),
        };
        format!(
            "column {} of table {} is for {declared} writes, but {other} uses it",
            column.name,
            table.name()
        )
    })
}

impl Operation {
    /// Returns the clustering cells of the row that the operation writes or deletes. Returns `None` if the
    /// operation concerns no single row.
    pub fn row(&self) -> Option<&Cells> {
        match self {
            Self::Put { clustering, .. }
            | Self::Patch { clustering, .. }
            | Self::DeleteRow { clustering } => Some(clustering),
            Self::PatchStatic { .. } | Self::DeleteRange { .. } | Self::DeletePartition => None,
        }
    }

    /// Returns whether the operation is a deletion. Among mutations with the same timestamp, deletions are
    /// applied last.
    pub fn deletes(&self) -> bool {
        matches!(
            self,
            Self::DeleteRow { .. } | Self::DeleteRange { .. } | Self::DeletePartition
        )
    }

    /// Returns whether the operation is a patch that names no column. CQL cannot express such a patch with a
    /// condition.
    fn is_bare_patch(&self) -> bool {
        matches!(self, Self::Patch { columns, .. } if columns.is_empty())
    }

    fn byte_len(&self) -> usize {
        let counted = |cells: &Cells| cells.byte_len() + cells.len() * CELL_OVERHEAD_BYTES;
        match self {
            Self::Put {
                clustering, cells, ..
            }
            | Self::Patch {
                clustering, cells, ..
            } => counted(clustering) + counted(cells),
            Self::PatchStatic { cells, .. } => counted(cells),
            Self::DeleteRow { clustering } => counted(clustering),
            Self::DeleteRange { from, to } => counted(from.cells()) + counted(to.cells()),
            Self::DeletePartition => 0,
        }
    }
}

impl Mutation {
    /// Returns the number of bytes of the operation that count for [`Limits`], without the key of the
    /// partition.
    pub fn byte_len(&self) -> usize {
        MUTATION_OVERHEAD_BYTES + self.operation.byte_len()
    }
}

fn mutations_len(partition: &Cells, mutations: &[Mutation]) -> usize {
    partition.byte_len() + mutations.iter().map(Mutation::byte_len).sum::<usize>()
}

impl PartitionWrite {
    /// Returns the number of bytes that count for [`Limits`]: an estimate that is the same for every store.
    pub fn byte_len(&self) -> usize {
        mutations_len(&self.partition, &self.mutations)
    }
}

impl CasCondition {
    /// Returns the number of bytes of the condition that count toward the size of a transaction.
    fn byte_len(&self) -> usize {
        let row = match &self.row {
            RowAddress::Static => 0,
            RowAddress::Row(row) => row.byte_len(),
        };
        CELL_OVERHEAD_BYTES + row + self.expected.as_ref().map_or(0, Vec::len)
    }
}

impl Cas {
    /// Returns the number of bytes that count for [`Limits`]: an estimate that is the same for every store.
    pub fn byte_len(&self) -> usize {
        mutations_len(&self.partition, &self.mutations)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use recto_model::table::TableOptions;
    use recto_model::{Direction, Type};

    use super::*;

    const LIMITS: Limits = Limits {
        mutation_bytes: 200,
        batch_bytes: 300,
        key_bytes: 100,
        remote: false,
        leaves_tombstones: false,
        sees_conflicts: true,
        transactions: true,
        counts_rows: true,
    };

    fn put_of(bytes: usize) -> PartitionWrite {
        let column = |name: &str, kind| Column {
            name: name.to_owned(),
            ty: Type::Blob,
            kind,
        };
        let columns = vec![
            column("p", ColumnKind::Partition),
            column("c", ColumnKind::Clustering(Direction::Ascending)),
            column("v", ColumnKind::Regular(WriteKind::Plain)),
        ];
        let table = Table::new("t", columns, TableOptions::default()).expect("the columns make a table");
        let cells = |bytes: usize| std::iter::once(Some(vec![0; bytes].as_slice())).collect::<Cells>();
        PartitionWrite {
            table: Arc::new(table),
            partition: cells(4),
            mutations: vec![Mutation {
                operation: Operation::Put {
                    clustering: cells(6),
                    cells: cells(bytes),
                    replace: true,
                },
                stamp: Some(Stamp(1)),
                ttl_seconds: None,
            }],
        }
    }

    #[test]
    fn bytes_are_counted_with_what_surrounds_them() {
        let counted = put_of(10).byte_len();
        assert_eq!(
            counted,
            4 + MUTATION_OVERHEAD_BYTES + 6 + 10 + 2 * CELL_OVERHEAD_BYTES
        );
    }

    #[test]
    fn the_stamp_of_what_was_never_written_is_refused() {
        let mut write = put_of(10);
        write.mutations[0].stamp = Some(Stamp(i64::MIN));
        assert!(LIMITS.check_write(&write).is_err());
        write.mutations[0].stamp = Some(Stamp(i64::MIN + 1));
        assert!(LIMITS.check_write(&write).is_ok());
    }

    #[test]
    fn limits_are_inclusive() {
        let fits = 200 - put_of(0).byte_len();
        assert!(LIMITS.check_write(&put_of(fits)).is_ok());
        let error = LIMITS
            .check_write(&put_of(fits + 1))
            .expect_err("the write is too large");
        assert_eq!(
            error.to_string(),
            "the write to table t has 201 bytes; at most 200 are allowed"
        );
        assert!(error.hint().is_some());
    }

    #[test]
    fn only_logged_batches_are_limited_together() {
        let half = 150 - put_of(0).byte_len();
        assert!(LIMITS.check_writes(&[put_of(half), put_of(half)], true).is_ok());
        let writes = [put_of(half), put_of(half + 1)];
        assert!(LIMITS.check_writes(&writes, false).is_ok());
        let error = LIMITS
            .check_writes(&writes, true)
            .expect_err("the batch is too large");
        assert_eq!(
            error.to_string(),
            "the logged batch has 301 bytes; at most 300 are allowed"
        );
    }

    #[test]
    fn the_column_is_named() {
        let mut write = put_of(0);
        write.mutations[0].operation = Operation::Patch {
            clustering: write.partition.clone(),
            columns: vec![0, 0],
            cells: [None, None].into_iter().collect(),
        };
        let error = LIMITS.check_write(&write).expect_err("a column is named twice");
        assert_eq!(error.to_string(), "a write to table t names column v twice");
    }
}
