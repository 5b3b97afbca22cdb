//! What tables and types the keyspace has, as the system tables tell.

use std::sync::Arc;
use std::time::Duration;

use recto_model::{Column, Table};
use recto_store::{StoreError, StoreErrorKind};
use scylla::response::query_result::QueryResult;

use crate::client::{Client, Deadline};
use crate::ddl::{SchemaColumn, SchemaTable, SchemaUdt};
use crate::values::ReadValuesError;

/// How often in a row the system tables must tell the same of a table before it counts as changed by
/// another program.
const AGREEING_READS: u32 = 4;
/// How long to wait between two of them.
const READ_INTERVAL: Duration = Duration::from_millis(100);

/// Of `system_schema.columns`: table, column, kind, clustering order, position, type.
type ColumnRow = (String, String, String, String, i32, String);

/// A table of Recto's, as it is.
pub(crate) struct FoundTable {
    /// As its comment tells.
    pub(crate) told: Table,
    /// All columns that it has.
    columns: Vec<SchemaColumn>,
    /// The types of the keyspace.
    udts: Arc<[SchemaUdt]>,
}

/// A table whose comment and columns do not fit each other.
#[derive(PartialEq, Eq)]
struct ChangedTable {
    name: String,
    reason: String,
}

impl Client {
    /// The table `name`; an error if there is none.
    pub(crate) async fn find_table(&self, name: &str, deadline: &Deadline) -> Result<FoundTable, StoreError> {
        let found = self.find_tables(Some(name), deadline).await?.pop();
        found.ok_or_else(|| {
            StoreError::new(StoreErrorKind::Table, format!("there is no table {name}"))
                .with_hint("make the tables of the schema first")
        })
    }

    /// All tables that are Recto's, or the one `name`, which must be Recto's if it is there.
    ///
    /// Tables, their columns and types are read one after the other, each from any node: what changes
    /// meanwhile is seen in part, such as a table that is being dropped without its columns. So what does
    /// not fit is read again, and is an error only if it stays as it is.
    pub(crate) async fn find_tables(
        &self,
        name: Option<&str>,
        deadline: &Deadline,
    ) -> Result<Vec<FoundTable>, StoreError> {
        let mut last = None;
        let mut reads = 0;
        loop {
            let changed = match self.read_tables(name, deadline).await? {
                Ok(found) => return Ok(found),
                Err(changed) => changed,
            };
            reads = if last.as_ref() == Some(&changed) {
                reads + 1
            } else {
                1
            };
            let wait = tokio::time::sleep(READ_INTERVAL);
            if reads == AGREEING_READS || deadline.limit(wait).await.is_err() {
                return Err(changed.into());
            }
            last = Some(changed);
        }
    }

    /// One reading of the tables.
    async fn read_tables(
        &self,
        name: Option<&str>,
        deadline: &Deadline,
    ) -> Result<Result<Vec<FoundTable>, ChangedTable>, StoreError> {
        let tables = self.load_tables(name, deadline).await?;
        let udts: Arc<[SchemaUdt]> = self.load_udts(deadline).await?.into();
        Ok(tables
            .into_iter()
            .filter(|table| name.is_some() || table.is_ours())
            .map(|table| FoundTable::new(table, &udts))
            .collect())
    }

    async fn load_tables(
        &self,
        name: Option<&str>,
        deadline: &Deadline,
    ) -> Result<Vec<SchemaTable>, StoreError> {
        let tables = self
            .query_schema("table_name, comment, gc_grace_seconds", "tables", name, deadline)
            .await?;
        let columns = self
            .query_schema(
                "table_name, column_name, kind, clustering_order, position, type",
                "columns",
                name,
                deadline,
            )
            .await?;
        let mut columns: Vec<ColumnRow> = typed_rows(columns)?;
        columns.sort_by_key(|(.., position, _)| *position);
        let tables: Vec<(String, Option<String>, Option<i32>)> = typed_rows(tables)?;
        Ok(tables
            .into_iter()
            .map(|(name, comment, gc_grace_seconds)| SchemaTable {
                columns: columns
                    .iter()
                    .filter(|column| column.0 == name)
                    .map(|(_, name, kind, clustering_order, _, ty)| SchemaColumn {
                        name: name.clone(),
                        kind: kind.clone(),
                        clustering_order: clustering_order.to_ascii_lowercase(),
                        ty: ty.clone(),
                    })
                    .collect(),
                name,
                comment: comment.unwrap_or_default(),
                gc_grace_seconds: gc_grace_seconds.unwrap_or_default(),
            })
            .collect())
    }

    /// The user-defined types of the keyspace.
    pub(crate) async fn load_udts(&self, deadline: &Deadline) -> Result<Vec<SchemaUdt>, StoreError> {
        let result = self
            .query_schema("type_name, field_names, field_types", "types", None, deadline)
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
        name: Option<&str>,
        deadline: &Deadline,
    ) -> Result<QueryResult, StoreError> {
        let text = format!("SELECT {columns} FROM system_schema.{table} WHERE keyspace_name = ?");
        let keyspace = self.config.keyspace.as_str();
        match name {
            None => self.ask(&text, (keyspace,), deadline).await,
            Some(name) => {
                let text = format!("{text} AND table_name = ?");
                self.ask(&text, (keyspace, name), deadline).await
            }
        }
    }
}

impl FoundTable {
    fn new(table: SchemaTable, udts: &Arc<[SchemaUdt]>) -> Result<Self, ChangedTable> {
        match table.table(udts) {
            Ok(told) => Ok(Self {
                told,
                columns: table.columns,
                udts: Arc::clone(udts),
            }),
            Err(reason) => Err(ChangedTable {
                name: table.name,
                reason,
            }),
        }
    }

    /// The column of the name of `wanted`, if it is there and another. Of a column that no comment tells
    /// of, nobody can say whether it is written plainly or conditionally.
    pub(crate) fn other_than(&self, wanted: &Column) -> Option<&SchemaColumn> {
        let found = self.columns.iter().find(|found| found.name == wanted.name)?;
        let is_wanted = match self.told.column_index(&wanted.name) {
            Some(index) => self.told.columns()[index] == *wanted,
            None => found.is(wanted, &self.udts),
        };
        (!is_wanted).then_some(found)
    }

    /// Whether all columns of `table` are there, and the key and the static columns are the same;
    /// there may be others beside.
    pub(crate) fn holds(&self, table: &Table) -> bool {
        let head = table.columns().len() - table.regular().len();
        let is_there = |column: &Column| {
            self.columns.iter().any(|found| found.name == column.name) && self.other_than(column).is_none()
        };
        self.told.options() == table.options()
            && self.told.columns().len() - self.told.regular().len() == head
            && self.told.columns()[..head] == table.columns()[..head]
            && table.regular().iter().all(is_there)
    }
}

impl From<ChangedTable> for StoreError {
    fn from(changed: ChangedTable) -> Self {
        let ChangedTable { name, reason } = changed;
        Self::new(
            StoreErrorKind::Table,
            format!("table {name} is not as Recto made it: {reason}"),
        )
        .with_hint("it was made or changed by another program; undo that, or use another keyspace")
    }
}

/// The rows of a query on system tables.
pub(crate) fn typed_rows<R>(result: QueryResult) -> Result<Vec<R>, StoreError>
where
    R: for<'frame> scylla::deserialize::row::DeserializeRow<'frame, 'frame>,
{
    let result = result.into_rows_result().map_err(ReadValuesError::frame)?;
    let rows = result.rows::<R>().map_err(ReadValuesError::frame)?;
    rows.map(|row| row.map_err(|error| ReadValuesError::frame(error).into()))
        .collect()
}
