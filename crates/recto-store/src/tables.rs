//! Outcomes of creating and dropping tables, comparison of tables, and limits of a store.

use recto_model::key::MAX_KEY_PART_BYTES;
use recto_model::table::{ColumnKind, Direction, TableOptions, WriteKind};
use recto_model::{Cells, Column, Table};

use crate::{StoreError, StoreErrorKind};

/// Outcome of creating, extending, dropping or emptying a table.
#[derive(Debug)]
pub enum TableOutcome {
    /// The change is done, or nothing had to be done.
    Done,
    /// The change may or may not be done, now or at any later time.
    Unknown(StoreError),
}

/// Result of comparing the existing table of a name with the requested table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableState {
    /// The existing table can serve requests that use the requested definition.
    AsAsked,
    /// No table of this name exists.
    Missing,
    /// The table differs in a property that its readers and writers depend on. The text describes the
    /// difference for users.
    Other(String),
}

/// Returns the columns that `wanted` has and `there` does not have.
/// [`Store::add_columns`](crate::Store::add_columns) adds these columns. The result is empty if the two
/// tables are equal.
///
/// # Errors
/// `Table`, naming the difference, if `wanted` is not `there` with further regular columns at its end.
pub fn added_columns<'t>(there: &Table, wanted: &'t Table) -> Result<&'t [Column], StoreError> {
    match obstacle(there, wanted) {
        None => Ok(&wanted.columns()[there.columns().len()..]),
        Some(difference) => Err(StoreError::new(
            StoreErrorKind::Table,
            format!("table {} cannot be extended: {difference}", there.name()),
        )
        .with_hint("add only columns outside the key, after the existing columns")),
    }
}

/// Compares the requested table `asked` with the table of its name among the existing tables `there`. Used by
/// stores whose tables only Recto changes.
pub(crate) fn state(there: &[Table], asked: &Table) -> TableState {
    match there.iter().find(|table| table.name() == asked.name()) {
        None => TableState::Missing,
        Some(there) if serves(there, asked) => TableState::AsAsked,
        Some(there) => {
            let difference = difference(there.columns(), asked.columns());
            TableState::Other(difference.unwrap_or_else(|| {
                if fixed_options(there) == fixed_options(asked) {
                    "its columns have another order".to_owned()
                } else {
                    other_options(there.options(), asked.options())
                }
            }))
        }
    }
}

/// Returns whether the existing table `there` can serve requests that use the definition `asked`. The two
/// must be equal, or `there` must have additional columns at its end.
pub fn serves(there: &Table, asked: &Table) -> bool {
    there.name() == asked.name()
        && fixed_options(there) == fixed_options(asked)
        && there.key_len() == asked.key_len()
        && there.statics().len() == asked.statics().len()
        && there.columns().starts_with(asked.columns())
}

/// Returns the options of a table that never change. They exclude the option of buckets, which another layer
/// translates to columns or ignores. They also exclude whether an empty partition key is allowed, which each
/// request says. The stores that use this check store an empty key like any other.
fn fixed_options(table: &Table) -> TableOptions {
    TableOptions {
        buckets: None,
        // Ignore this option, because each request says whether the rows are counted.
        counts_rows: false,
        allows_empty_partition: false,
        ..table.options()
    }
}

/// Describes to users how the columns of an existing table `there` differ from the requested columns `asked`.
/// Returns `None` if `there` only has further columns outside the key, or has its regular columns in another
/// order.
pub fn difference(there: &[Column], asked: &[Column]) -> Option<String> {
    for column in asked {
        let name = &column.name;
        match there.iter().find(|other| other.name == *name) {
            None => return Some(format!("column {name} is missing")),
            Some(other) if other.ty != column.ty => return Some(other_type(other, column)),
            Some(other) if other.kind != column.kind => {
                let (is, asked) = (kind_name(other.kind), kind_name(column.kind));
                return Some(format!("column {name} is {is}, not {asked}"));
            }
            Some(_) => {}
        }
    }
    let fixed = |columns: &[Column]| -> Vec<String> {
        let fixed = columns
            .iter()
            .filter(|one| !matches!(one.kind, ColumnKind::Regular(_)));
        fixed.map(|column| column.name.clone()).collect()
    };
    let (is, should) = (fixed(there), fixed(asked));
    if let Some(more) = there
        .iter()
        .find(|one| is.contains(&one.name) && !should.contains(&one.name))
    {
        return Some(format!(
            "there is an additional column {}, {}",
            more.name,
            kind_name(more.kind)
        ));
    }
    (is != should).then(|| "the columns of its key have another order".to_owned())
}

/// Describes to users that a column has a type other than the requested one. Two types with the same name
/// differ in their fields.
fn other_type(is: &Column, asked: &Column) -> String {
    let (name, is, asked) = (&asked.name, is.ty.to_string(), asked.ty.to_string());
    if is == asked {
        format!("column {name} has another type {is}: its fields differ")
    } else {
        format!("column {name} has type {is}, not {asked}")
    }
}

/// Describes to users how the options of a table differ from the requested ones.
fn other_options(is: TableOptions, asked: TableOptions) -> String {
    if is.gc_grace_seconds != asked.gc_grace_seconds {
        return format!(
            "its options have gc_grace_seconds = {}, not {}",
            is.gc_grace_seconds, asked.gc_grace_seconds
        );
    }
    if is.automatic_snapshots != asked.automatic_snapshots {
        return "its options have another setting for automatic snapshots".to_owned();
    }
    "its options have another compaction".to_owned()
}

/// Returns the reason why adding columns cannot turn the table `there` into `wanted`, if there is such a
/// reason.
fn obstacle(there: &Table, wanted: &Table) -> Option<String> {
    if there.name() != wanted.name() {
        return Some(format!("it is not table {}", wanted.name()));
    }
    for column in there.columns() {
        match wanted.columns().iter().find(|other| other.name == column.name) {
            None => return Some(format!("it has an additional column {}", column.name)),
            Some(other) if other.ty != column.ty => return Some(other_type(column, other)),
            Some(other) if other.kind != column.kind => {
                let (is, wanted) = (kind_name(column.kind), kind_name(other.kind));
                return Some(format!("column {} is {is}, not {wanted}", column.name));
            }
            Some(_) => {}
        }
    }
    for column in wanted.columns() {
        let is_new = there.column_index(&column.name).is_none();
        if is_new && !matches!(column.kind, ColumnKind::Regular(_)) {
            return Some(format!(
                "column {} would be {}",
                column.name,
                kind_name(column.kind)
            ));
        }
    }
    if fixed_options(there) != fixed_options(wanted) {
        return Some(other_options(there.options(), wanted.options()));
    }
    if !wanted.columns().starts_with(there.columns()) {
        return Some("its columns have another order".to_owned());
    }
    None
}

/// Returns the role of a column in its table, in words for users.
fn kind_name(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::Partition => "part of the partition key",
        ColumnKind::Clustering(Direction::Ascending) => "an ascending clustering column",
        ColumnKind::Clustering(Direction::Descending) => "a descending clustering column",
        ColumnKind::Static(WriteKind::Plain) => "a static column with plain writes",
        ColumnKind::Static(WriteKind::Cas) => "a static column with conditional writes",
        ColumnKind::Regular(WriteKind::Plain) => "a column with plain writes",
        ColumnKind::Regular(WriteKind::Cas) => "a column with conditional writes",
    }
}

/// Limits of one request to a store, and abilities of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the abilities of a store are independent facts, not states of one machine"
)]
pub struct Limits {
    /// Maximum bytes of the changes (mutations) of one partition in one write.
    pub mutation_bytes: usize,
    /// Maximum bytes of a logged batch, and of a transaction.
    pub batch_bytes: usize,
    /// Maximum bytes of a whole partition key, and of a whole clustering key.
    pub key_bytes: usize,
    /// True if each read costs a round trip. Callers then prefer one read of too much data to two reads.
    pub remote: bool,
    /// True if deletions slow down reads of nearby keys for a time. Callers that delete as fast as they write
    /// must then avoid reading keys that they deleted.
    pub leaves_tombstones: bool,
    /// True if an insert reports a conflict if the row exists with other values. If false, conflicts remain
    /// unnoticed, because a remote store would need an additional round trip to detect one.
    pub sees_conflicts: bool,
    /// True if the store has [transactions](crate::Store::transact): conditional and plain writes
    /// of several partitions and tables, all or nothing. A transaction has at most
    /// [`MAX_TRANSACTION_WRITES`](crate::check::MAX_TRANSACTION_WRITES) writes and `batch_bytes`
    /// bytes.
    pub transactions: bool,
    /// True if tables can count the rows of [any slice](crate::Snapshot::estimate) exactly, without
    /// reading them.
    pub counts_rows: bool,
}

impl Limits {
    /// Checks the cells of a full partition key. Cells must not be null, each cell must have at most
    /// [`MAX_KEY_PART_BYTES`] bytes, and the whole key must have at most `key_bytes` bytes. If the key has
    /// only one cell, it must not be empty.
    pub fn check_partition(&self, table: &Table, partition: &Cells) -> Result<(), StoreError> {
        let refuse = |message: String| Err(StoreError::new(StoreErrorKind::Invalid, message));
        let columns = table.partition();
        if partition.len() != columns.len() {
            return refuse(format!(
                "table {} has {} partition columns, but the request has {}",
                table.name(),
                columns.len(),
                partition.len()
            ));
        }
        if !table.allows_empty_partition() && partition.get(0).is_some_and(<[u8]>::is_empty) {
            return refuse(format!("partition column {} is empty", columns[0].name));
        }
        self.check_parts(columns, partition)
    }

    /// Checks the cells of a full clustering key. Cells must not be null, each cell must have at most
    /// [`MAX_KEY_PART_BYTES`] bytes, and the whole key must have at most `key_bytes` bytes.
    pub fn check_clustering(&self, table: &Table, clustering: &Cells) -> Result<(), StoreError> {
        if clustering.len() != table.clustering().len() {
            return Err(StoreError::new(
                StoreErrorKind::Invalid,
                format!(
                    "table {} has {} clustering columns, but the request has {}",
                    table.name(),
                    table.clustering().len(),
                    clustering.len()
                ),
            ));
        }
        self.check_parts(table.clustering(), clustering)
    }

    pub(crate) fn check_parts(&self, columns: &[Column], parts: &Cells) -> Result<(), StoreError> {
        let refuse = |message: String| Err(StoreError::new(StoreErrorKind::Invalid, message));
        for (column, part) in columns.iter().zip(parts.iter()) {
            match part {
                None => return refuse(format!("key column {} is null", column.name)),
                Some(part) if part.len() > MAX_KEY_PART_BYTES => {
                    return refuse(format!(
                        "key column {} has {} bytes; at most {MAX_KEY_PART_BYTES} are allowed",
                        column.name,
                        part.len()
                    ));
                }
                Some(_) => {}
            }
        }
        if parts.byte_len() > self.key_bytes {
            return refuse(format!(
                "the key has {} bytes; at most {} are allowed",
                parts.byte_len(),
                self.key_bytes
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use recto_model::key::MAX_KEY_PART_BYTES;
    use recto_model::table::{ColumnKind, TableOptions};
    use recto_model::{Column, Direction, Type};

    use super::*;

    const LIMITS: Limits = Limits {
        mutation_bytes: 1000,
        batch_bytes: 1500,
        key_bytes: 70_000,
        remote: false,
        leaves_tombstones: false,
        sees_conflicts: true,
        transactions: true,
        counts_rows: true,
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
            "table t has 1 partition columns, but the request has 0"
        );
        assert_eq!(
            refusal(check(&two, &[Some(1), Some(MAX_KEY_PART_BYTES + 1)])),
            "key column p1 has 65536 bytes; at most 65535 are allowed"
        );
        assert_eq!(
            refusal(check(&two, &[Some(MAX_KEY_PART_BYTES), Some(4466)])),
            "the key has 70001 bytes; at most 70000 are allowed"
        );
        assert_eq!(refusal(check(&two, &[Some(1), None])), "key column p1 is null");
    }

    #[test]
    fn columns_are_added_at_the_end() {
        let regular = |name: &str| Column {
            name: name.to_owned(),
            ty: Type::Int,
            kind: ColumnKind::Regular(WriteKind::Plain),
        };
        let with = |table: Table, columns: &[Column]| {
            let columns = table.columns().iter().chain(columns).cloned().collect();
            Table::new(table.name(), columns, table.options()).expect("the columns make a table")
        };
        let there = with(table(1), &[regular("a")]);
        let wanted = with(table(1), &[regular("a"), regular("b"), regular("x")]);
        let names = |columns: &[Column]| columns.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(added_columns(&there, &wanted).expect("it can")), ["b", "x"]);
        assert!(added_columns(&there, &there).expect("it can").is_empty());
        assert!(serves(&wanted, &there) && serves(&there, &there) && !serves(&there, &wanted));
        let refused = |wanted: &Table| {
            let error = added_columns(&there, wanted).expect_err("it is refused");
            assert_eq!(error.kind(), StoreErrorKind::Table);
            assert!(
                !serves(wanted, &there),
                "what cannot become of a table does not serve it"
            );
            error.to_string()
        };
        assert_eq!(
            refused(&with(table(1), &[regular("b")])),
            "table t cannot be extended: it has an additional column a"
        );
        assert_eq!(
            refused(&with(table(1), &[regular("b"), regular("a")])),
            "table t cannot be extended: its columns have another order"
        );
        assert_eq!(
            refused(&with(table(2), &[regular("a")])),
            "table t cannot be extended: column p1 would be part of the partition key"
        );
        let text = Column {
            ty: Type::Text,
            ..regular("a")
        };
        assert_eq!(
            refused(&with(table(1), &[text])),
            "table t cannot be extended: column a has type int, not text"
        );
        let kind = ColumnKind::Regular(WriteKind::Cas);
        assert_eq!(
            refused(&with(table(1), &[Column { kind, ..regular("a") }])),
            "table t cannot be extended: column a is a column with plain writes, not a column with \
             conditional writes"
        );
        let kind = ColumnKind::Static(WriteKind::Plain);
        assert_eq!(
            refused(&with(table(1), &[regular("a"), Column { kind, ..regular("s") }])),
            "table t cannot be extended: column s would be a static column with plain writes"
        );
    }

    #[test]
    fn clusterings() {
        let table = table(1);
        let check = |parts: &[Option<usize>]| LIMITS.check_clustering(&table, &cells(parts));
        assert!(check(&[Some(0), Some(0)]).is_ok());
        assert_eq!(refusal(check(&[None, Some(0)])), "key column c is null");
        assert_eq!(
            refusal(check(&[Some(1)])),
            "table t has 2 clustering columns, but the request has 1"
        );
    }
}
