//! Tables and types of the keyspace, read from the system tables.

use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join;
use recto_model::{Column, Table};
use recto_store::tables::difference;
use recto_store::{StoreError, StoreErrorKind, TableState};
use scylla::response::query_result::QueryResult;
use serde_json::Value;

use crate::attached::is_attached;
use crate::client::{Client, Deadline};
use crate::cql::string_literal;
use crate::ddl::{ALLOW_AUTO_SNAPSHOT, SchemaColumn, SchemaTable, SchemaUdt, own_id};
use crate::escape::is_escaped;
use crate::taken::{ListedTable, compare_taken};
use crate::values::ReadValuesError;

/// Number of consecutive reads in which the system tables must agree on a table before it counts as
/// changed by another program.
const AGREEING_READS: u32 = 4;
/// Wait between two consecutive reads of the system tables.
const READ_INTERVAL: Duration = Duration::from_millis(100);
const MICROS_PER_MILLI: i64 = 1_000;

/// Row of `system_schema.columns`: table, column, kind, clustering order, position, type.
type ColumnRow = (String, String, String, String, i32, String);

/// Table that exists in the keyspace, as the system tables describe it.
pub(crate) struct FoundTable {
    pub(crate) name: String,
    /// Identifier that Cassandra gave the table. A table that is dropped and created again gets
    /// another identifier.
    pub(crate) id: String,
    /// Table as Recto created it, read from the table's comment. Or the reason why the comment
    /// cannot be used: another program wrote it or changed the columns.
    pub(crate) told: Result<Table, String>,
    /// True if Recto wrote the table's comment.
    pub(crate) is_ours: bool,
    pub(crate) gc_grace_seconds: u32,
    pub(crate) automatic_snapshots: bool,
    /// All columns that exist: partition, clustering, static, then regular columns.
    columns: Vec<SchemaColumn>,
    /// User-defined types of the keyspace, to which the types of columns refer.
    udts: Arc<[SchemaUdt]>,
}

impl Client {
    /// Returns the number of tables of all keyspaces, without those of Cassandra itself.
    pub(crate) async fn count_tables(&self) -> Result<u64, StoreError> {
        let text = "SELECT keyspace_name FROM system_schema.tables";
        let result = self.ask(text, (), &self.schema_deadline()).await?;
        let keyspaces = typed_rows::<(String,)>(result)?.into_iter();
        let of_users = keyspaces.filter(|(name,)| !is_system_keyspace(name));
        Ok(of_users.count() as u64)
    }

    /// Returns the table `name`, or an error if it does not exist.
    pub(crate) async fn find_table(&self, name: &str, deadline: &Deadline) -> Result<FoundTable, StoreError> {
        let found = self.find_tables(&[name], deadline).await?.pop();
        found.ok_or_else(|| {
            StoreError::new(StoreErrorKind::Table, format!("there is no table {name}"))
                .with_hint("create the tables of the schema first")
        })
    }

    /// Returns the existing tables among `names`. If `names` is empty, returns all tables of the
    /// keyspace.
    ///
    /// Tables, columns and types are read concurrently, each from any node. The result can mix
    /// states before and after a concurrent change, such as a table that is being dropped, without
    /// its columns. Therefore a table of Recto that does not match its comment is read again. It
    /// counts as changed only if several reads agree.
    pub(crate) async fn find_tables(
        &self,
        names: &[&str],
        deadline: &Deadline,
    ) -> Result<Vec<FoundTable>, StoreError> {
        let damaged = |found: &FoundTable| {
            let reason = found.told.as_ref().err().filter(|_| found.is_ours);
            reason.map(|reason| format!("{}: {reason}", found.name))
        };
        let doubts = |found: &[FoundTable]| found.iter().filter_map(damaged).collect();
        self.read_settled(names, deadline, doubts).await
    }

    /// Compares existing tables with `asked`. Reads a table that differs again, as
    /// [`find_tables`](Self::find_tables) does. Returns only when Cassandra accepts statements on
    /// each table that matches, because another process may just be creating the table.
    pub(crate) async fn compare_tables(&self, asked: &[Table]) -> Result<Vec<TableState>, StoreError> {
        let deadline = self.schema_deadline();
        let attached: Vec<&Table> = asked.iter().filter(|table| is_attached(table)).collect();
        if !attached.is_empty() && attached.len() == asked.len() {
            return self.compare_attached(&attached).await;
        }
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let compare = || self.compare_listed(asked, &deadline);
        let check = |listed: Vec<ListedTable>| self.check_taken(listed, &deadline);
        compare_taken(&deadline, compare, check).await
    }

    /// Compares the tables in the system tables with `asked`. Also returns the existing tables that
    /// match.
    async fn compare_listed(
        &self,
        asked: &[Table],
        deadline: &Deadline,
    ) -> Result<(Vec<TableState>, Vec<ListedTable>), StoreError> {
        let doubts = |found: &[FoundTable]| {
            let states = asked.iter().map(|table| state(found, table));
            states
                .filter_map(|state| match state {
                    TableState::Other(difference) => Some(difference),
                    TableState::AsAsked | TableState::Missing => None,
                })
                .collect()
        };
        let names: Vec<&str> = asked.iter().map(Table::name).collect();
        let found = self.read_settled(&names, deadline, doubts).await?;
        let states: Vec<TableState> = asked.iter().map(|table| state(&found, table)).collect();
        let as_asked = |name: &str| {
            let mut compared = asked.iter().zip(&states);
            compared.any(|(table, state)| table.name() == name && *state == TableState::AsAsked)
        };
        let listed = found.into_iter().filter(|found| as_asked(&found.name));
        let listed = listed.map(|FoundTable { name, id, .. }| ListedTable { name, id });
        let listed = listed.collect();
        Ok((states, listed))
    }

    /// Reads the tables until one read has no doubts, or several consecutive reads have the same
    /// doubts. A doubt describes a difference from the expected tables; `doubts` finds the doubts
    /// of one read.
    async fn read_settled(
        &self,
        names: &[&str],
        deadline: &Deadline,
        doubts: impl Fn(&[FoundTable]) -> Vec<String>,
    ) -> Result<Vec<FoundTable>, StoreError> {
        let mut last = None;
        let mut reads = 0;
        loop {
            let found = self.read_tables(names, deadline).await?;
            let doubts = doubts(&found);
            if doubts.is_empty() {
                return Ok(found);
            }
            reads = if last.as_ref() == Some(&doubts) {
                reads + 1
            } else {
                1
            };
            let wait = tokio::time::sleep(READ_INTERVAL);
            if reads == AGREEING_READS || deadline.limit(wait).await.is_err() {
                return Ok(found);
            }
            last = Some(doubts);
        }
    }

    /// Returns the version of the schema, as the node that answers knows it.
    pub(crate) async fn schema_version(&self) -> Result<String, StoreError> {
        let deadline = self.connect_deadline();
        let text = "SELECT CAST(schema_version AS text) FROM system.local WHERE key = 'local'";
        let rows: Vec<(String,)> = typed_rows(self.ask(text, (), &deadline).await?)?;
        Ok(rows
            .into_iter()
            .next()
            .map(|(version,)| version)
            .unwrap_or_default())
    }

    /// Reads the clock of a coordinator, in microseconds since 1970.
    pub(crate) async fn now_micros(&self, deadline: &Deadline) -> Result<i64, StoreError> {
        let text = "SELECT toUnixTimestamp(now()) FROM system.local";
        let rows: Vec<(i64,)> = typed_rows(self.ask(text, (), deadline).await?)?;
        let millis = rows.first().map_or(0, |(millis,)| *millis);
        Ok(millis.saturating_mul(MICROS_PER_MILLI))
    }

    /// Reads the definitions of the tables `names`, or of all tables if `names` is empty, once.
    async fn read_tables(&self, names: &[&str], deadline: &Deadline) -> Result<Vec<FoundTable>, StoreError> {
        let (tables, udts) = try_join(self.load_tables(names, deadline), self.load_udts(deadline)).await?;
        let udts: Arc<[SchemaUdt]> = udts.into();
        Ok(tables
            .into_iter()
            .map(|table| FoundTable::new(table, &udts))
            .collect())
    }

    async fn load_tables(&self, names: &[&str], deadline: &Deadline) -> Result<Vec<SchemaTable>, StoreError> {
        const COLUMNS: &str = "table_name, column_name, kind, clustering_order, position, type";
        // Read the options as JSON, because different versions of Cassandra have different columns
        // in this table.
        let tables = self.query_schema("JSON *", "tables", names, deadline);
        let columns = self.query_schema(COLUMNS, "columns", names, deadline);
        let (tables, columns) = try_join(tables, columns).await?;
        let mut columns: Vec<ColumnRow> = typed_rows(columns)?;
        let rank = |kind: &str| {
            ["partition_key", "clustering", "static"]
                .iter()
                .position(|one| *one == kind)
        };
        columns.sort_by_key(|(_, _, kind, _, position, _)| (rank(kind).unwrap_or(usize::MAX), *position));
        let tables: Vec<(String,)> = typed_rows(tables)?;
        tables
            .into_iter()
            .map(|(table,)| schema_table(&table, &columns))
            .collect()
    }

    /// Returns the user-defined types of the keyspace.
    pub(crate) async fn load_udts(&self, deadline: &Deadline) -> Result<Vec<SchemaUdt>, StoreError> {
        let result = self
            .query_schema("type_name, field_names, field_types", "types", &[], deadline)
            .await?;
        let rows: Vec<(String, Vec<String>, Vec<String>)> = typed_rows(result)?;
        Ok(rows
            .into_iter()
            .map(|(name, names, types)| SchemaUdt {
                name,
                fields: names.into_iter().zip(types).collect(),
            })
            .collect())
    }

    async fn query_schema(
        &self,
        columns: &str,
        table: &str,
        names: &[&str],
        deadline: &Deadline,
    ) -> Result<QueryResult, StoreError> {
        // Write the names as literals, because the driver prepares a statement with bind markers
        // first.
        let keyspace = string_literal(&self.config.keyspace);
        let mut text =
            format!("SELECT {columns} FROM system_schema.{table} WHERE keyspace_name = {keyspace}");
        if !names.is_empty() {
            let names: Vec<String> = names.iter().map(|name| string_literal(name)).collect();
            text.push_str(&format!(" AND table_name IN ({})", names.join(", ")));
        }
        self.ask(&text, (), deadline).await
    }
}

/// Returns whether Cassandra itself creates the keyspace on each cluster.
fn is_system_keyspace(name: &str) -> bool {
    name == "system" || name.starts_with("system_")
}

/// Converts a row of `system_schema.tables` to a table. `columns` contains the columns of all
/// tables.
fn schema_table(row: &str, columns: &[ColumnRow]) -> Result<SchemaTable, StoreError> {
    let row: Value = serde_json::from_str(row).map_err(ReadValuesError::frame)?;
    let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let name = text("table_name");
    let columns = columns.iter().filter(|column| column.0 == name);
    Ok(SchemaTable {
        comment: text("comment"),
        gc_grace_seconds: row["gc_grace_seconds"]
            .as_u64()
            .and_then(|seconds| u32::try_from(seconds).ok())
            .unwrap_or_default(),
        automatic_snapshots: match row.get(ALLOW_AUTO_SNAPSHOT) {
            Some(value) => value.as_bool().unwrap_or(true),
            // The release does not know the option. Then only the id shows whether Recto empties the table.
            None => text("id") != own_id(&text("keyspace_name"), &name),
        },
        columns: columns
            .map(|(_, name, kind, clustering_order, _, ty)| SchemaColumn {
                name: name.clone(),
                kind: kind.clone(),
                clustering_order: clustering_order.to_ascii_lowercase(),
                ty: ty.clone(),
            })
            .collect(),
        id: text("id"),
        name,
    })
}

/// Compares the requested table `asked` with the existing table of the same name in `found`.
fn state(found: &[FoundTable], asked: &Table) -> TableState {
    match found.iter().find(|table| table.name == asked.name()) {
        None => TableState::Missing,
        Some(table) => table
            .difference(asked)
            .map_or(TableState::AsAsked, TableState::Other),
    }
}

impl FoundTable {
    fn new(table: SchemaTable, udts: &Arc<[SchemaUdt]>) -> Self {
        Self {
            told: table.table(udts),
            is_ours: table.is_ours(),
            gc_grace_seconds: table.gc_grace_seconds,
            automatic_snapshots: table.automatic_snapshots,
            name: table.name,
            id: table.id,
            columns: table.columns,
            udts: Arc::clone(udts),
        }
    }

    /// Describes in words how the columns of the table differ from those of `asked`; `None` if they
    /// match. Additional regular columns are no difference, because statements name their columns.
    /// Only the table's comment shows whether a column is written plainly or conditionally. Without
    /// a comment of Recto, the kind in `asked` is assumed.
    pub(crate) fn difference(&self, asked: &Table) -> Option<String> {
        let mut there = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let wanted = asked
                .column_index(&column.name)
                .map(|index| &asked.columns()[index]);
            if wanted.is_none() && column.is_regular() {
                continue;
            }
            let told = self.told.as_ref().ok().and_then(|told| {
                let index = told.column_index(&column.name)?;
                Some(&told.columns()[index])
            });
            match column.column(told.or(wanted).map(|one| one.kind), &self.udts) {
                Ok(column) => there.push(column),
                Err(_) => return Some(column.other_than(wanted)),
            }
        }
        let in_form = || {
            let told = self.told.as_ref().ok()?;
            (is_escaped(told) != is_escaped(asked))
                .then(|| "the values of its partition column are stored in another form".to_owned())
        };
        difference(&there, asked.columns()).or_else(in_form)
    }

    /// Returns the columns among `wanted` that the table does not have.
    pub(crate) fn missing(&self, wanted: &[Column]) -> Vec<Column> {
        let is_missing = |column: &&Column| !self.columns.iter().any(|found| found.name == column.name);
        wanted.iter().filter(is_missing).cloned().collect()
    }

    /// Returns the existing column with the name of `wanted`, if it differs from `wanted`. If no
    /// comment lists the column, its write kind (plain or conditional) is unknown and not compared.
    pub(crate) fn other_than(&self, wanted: &Column) -> Option<&SchemaColumn> {
        let found = self.columns.iter().find(|found| found.name == wanted.name)?;
        let told = self.told.as_ref().ok();
        let told = told.and_then(|told| Some(&told.columns()[told.column_index(&wanted.name)?]));
        let is_wanted = match told {
            Some(told) => told == wanted,
            None => found.is(wanted, &self.udts),
        };
        (!is_wanted).then_some(found)
    }
}

/// Decodes the rows of a query on system tables.
pub(crate) fn typed_rows<R>(result: QueryResult) -> Result<Vec<R>, StoreError>
where
    R: for<'frame> scylla::deserialize::row::DeserializeRow<'frame, 'frame>,
{
    let result = result.into_rows_result().map_err(ReadValuesError::frame)?;
    let rows = result.rows::<R>().map_err(ReadValuesError::frame)?;
    rows.map(|row| row.map_err(|error| ReadValuesError::frame(error).into()))
        .collect()
}
