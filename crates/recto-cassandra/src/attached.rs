//! Tables that other programs created: their columns, as the system tables list them, and whether
//! they have changed.
//!
//! This module sends only `SELECT` statements: to `system_schema`, which every user may read, and
//! to the tables themselves.

use recto_model::schema::AttachedTable;
use recto_model::table::{ColumnKind, WriteKind};
use recto_model::{Column, Table, Type};
use recto_store::tables::difference;
use recto_store::{StoreError, TableState};

use crate::client::{Client, Deadline};
use crate::cql::{name_in_keyspace, string_literal, table_name};
use crate::ddl::{SchemaColumn, is_comment_of_recto, parse_type};
use crate::schema::typed_rows;
use crate::store::CassandraStore;

/// Table or materialized view that another program created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableThere {
    /// Name of the table or materialized view, without its keyspace.
    pub name: String,
    /// Columns: partition and clustering columns in the order of the key, then static and regular
    /// columns, each group by name.
    pub columns: Vec<ColumnThere>,
    /// True if Recto created the table, which its comment shows.
    pub is_of_recto: bool,
}

/// Column of a table or materialized view that another program created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnThere {
    /// Name of the column, with its exact case.
    pub name: String,
    /// Role of the column in the table.
    pub kind: ColumnKind,
    /// Name of the column's type, as Cassandra writes it in its system tables.
    pub type_text: String,
    /// Type as Recto reads it; `None` if Recto does not support it. Recto reads an unfrozen type as
    /// if it were frozen, and a counter as a `bigint`.
    pub ty: Option<Type>,
}

/// Materialized view in the keyspace, of a table that another program created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewThere {
    /// Name of the materialized view, without its keyspace.
    pub name: String,
    /// True if the view's `WHERE` clause contains more than `IS NOT NULL` conditions, so that the
    /// view omits further rows of its table.
    pub is_partial: bool,
}

impl CassandraStore {
    /// Returns a table or materialized view of the keyspace, or `None` if it does not exist.
    ///
    /// # Errors
    /// Cassandra's system tables cannot be read.
    pub async fn table_there(&self, name: &str) -> Result<Option<TableThere>, StoreError> {
        let client = self.client();
        let deadline = client.schema_deadline();
        let found = client.tables_there(&[name], &deadline).await?.into_iter();
        let mut found = found.filter(|table| table.name == name);
        Ok(found.next())
    }

    /// Returns the materialized views of a table of the keyspace, by name.
    ///
    /// # Errors
    /// The errors of [`table_there`](Self::table_there).
    pub async fn views_there(&self, table: &str) -> Result<Vec<ViewThere>, StoreError> {
        let client = self.client();
        let deadline = client.schema_deadline();
        let keyspace = string_literal(&client.config.keyspace);
        let text = format!(
            "SELECT view_name, base_table_name, where_clause FROM system_schema.views WHERE keyspace_name = {keyspace}"
        );
        let rows: Vec<(String, String, String)> = typed_rows(client.ask(&text, (), &deadline).await?)?;
        let views = rows.into_iter().filter(|(_, base, _)| base == table);
        let views = views.map(|(name, _, condition)| ViewThere {
            name,
            is_partial: is_partial(&condition),
        });
        Ok(views.collect())
    }

    /// Reads one row of a table of the keyspace, to check that the user may read it.
    ///
    /// # Errors
    /// [`Unauthorized`](recto_store::StoreErrorKind::Unauthorized) if the user may not read the
    /// table; otherwise the error that stops the read.
    pub async fn check_readable(&self, table: &str) -> Result<(), StoreError> {
        let client = self.client();
        let deadline = client.connect_deadline();
        let text = format!(
            "SELECT * FROM {} LIMIT 1",
            table_name(&client.config.keyspace, table)
        );
        let read = client.ask(&text, (), &deadline).await;
        read.map(drop).map_err(|error| error.with_table(table))
    }
}

/// Returns whether a view's condition contains more than `IS NOT NULL` of columns.
fn is_partial(condition: &str) -> bool {
    let condition = condition.to_ascii_lowercase();
    let mut parts = condition.split(" and ");
    parts.any(|part| !part.trim_end().ends_with(" is not null"))
}

impl Client {
    /// Returns the tables and materialized views of the keyspace among `names` that exist.
    async fn tables_there(&self, names: &[&str], deadline: &Deadline) -> Result<Vec<TableThere>, StoreError> {
        let keyspace = string_literal(&self.config.keyspace);
        let literals: Vec<String> = names.iter().map(|name| string_literal(name)).collect();
        let text = format!(
            "SELECT table_name, column_name, kind, clustering_order, position, type FROM system_schema.columns \
             WHERE keyspace_name = {keyspace} AND table_name IN ({})",
            literals.join(", ")
        );
        let mut rows: Vec<(String, String, String, String, i32, String)> =
            typed_rows(self.ask(&text, (), deadline).await?)?;
        let rank = |kind: &str| {
            let kinds = ["partition_key", "clustering", "static"];
            kinds.iter().position(|one| *one == kind).unwrap_or(kinds.len())
        };
        rows.sort_by(|left, right| {
            let key = |row: &(String, String, String, String, i32, String)| {
                (row.0.clone(), rank(&row.2), row.4, row.1.clone())
            };
            key(left).cmp(&key(right))
        });
        let of_recto = self.tables_of_recto(&literals, deadline).await?;
        let mut tables: Vec<TableThere> = Vec::new();
        for (table, name, kind, clustering_order, _, ty) in rows {
            let column = SchemaColumn {
                name,
                kind,
                clustering_order: clustering_order.to_ascii_lowercase(),
                ty,
            };
            let Some(kind) = column.kind_of(WriteKind::Plain) else {
                continue;
            };
            let column = ColumnThere {
                ty: type_there(&column.ty),
                name: column.name,
                kind,
                type_text: column.ty,
            };
            match tables.last_mut().filter(|last| last.name == table) {
                Some(last) => last.columns.push(column),
                None => tables.push(TableThere {
                    is_of_recto: of_recto.contains(&table),
                    name: table,
                    columns: vec![column],
                }),
            }
        }
        Ok(tables)
    }

    /// Returns the names of the tables in `literals` that Recto created.
    async fn tables_of_recto(
        &self,
        literals: &[String],
        deadline: &Deadline,
    ) -> Result<Vec<String>, StoreError> {
        let text = format!(
            "SELECT table_name, comment FROM system_schema.tables WHERE keyspace_name = {} AND table_name IN ({})",
            string_literal(&self.config.keyspace),
            literals.join(", ")
        );
        let rows: Vec<(String, Option<String>)> = typed_rows(self.ask(&text, (), deadline).await?)?;
        let of_recto = rows
            .into_iter()
            .filter(|(_, comment)| comment.as_deref().is_some_and(is_comment_of_recto));
        Ok(of_recto.map(|(name, _)| name).collect())
    }

    /// Compares existing tables of other programs with `asked`, their descriptions in Recto's
    /// schema. Additional columns outside the key do not count as a difference.
    pub(crate) async fn compare_attached(&self, asked: &[&Table]) -> Result<Vec<TableState>, StoreError> {
        let deadline = self.schema_deadline();
        let names: Vec<&str> = asked.iter().map(|table| name_in_keyspace(table.name())).collect();
        let found = self.tables_there(&names, &deadline).await?;
        let state = |asked: &&Table| {
            let name = name_in_keyspace(asked.name());
            match found.iter().find(|table| table.name == name) {
                None => TableState::Missing,
                Some(table) => table
                    .difference(asked)
                    .map_or(TableState::AsAsked, TableState::Other),
            }
        };
        Ok(asked.iter().map(state).collect())
    }
}

impl TableThere {
    /// Describes in words how the table's columns differ from those of `asked`; `None` if they
    /// match.
    fn difference(&self, asked: &Table) -> Option<String> {
        if self.is_of_recto {
            return Some(
                "the table belongs to Recto and also has deleted and expired records; open its keyspace as a \
                 store"
                    .to_owned(),
            );
        }
        let mut there = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let wanted = asked.columns().iter().find(|one| one.name == column.name);
            let is_key = matches!(column.kind, ColumnKind::Partition | ColumnKind::Clustering(_));
            if wanted.is_none() && !is_key {
                continue;
            }
            let Some(ty) = column.ty.clone() else {
                let (name, ty) = (&column.name, &column.type_text);
                return Some(format!(
                    "column {name} has type {ty}, which Recto does not support"
                ));
            };
            there.push(Column {
                name: column.name.clone(),
                ty,
                // Recto reads the static cells with each row, so it treats static columns as
                // regular columns.
                kind: if is_key {
                    column.kind
                } else {
                    ColumnKind::Regular(WriteKind::Plain)
                },
            });
        }
        difference(&there, asked.columns())
    }
}

/// Returns the type that Recto uses for cells of the CQL type `text`. `None`: Recto does not
/// support the type.
fn type_there(text: &str) -> Option<Type> {
    if text == "counter" {
        return Some(Type::BigInt);
    }
    parse_type(text, &[]).ok()
}

/// Returns whether another program owns a table, which Recto only reads. The name of the table then
/// contains its keyspace.
pub(crate) fn is_attached(table: &Table) -> bool {
    AttachedTable::keyspace_of(table.name()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_whole_unless_it_has_another_condition() {
        for (condition, partial) in [
            ("status IS NOT NULL", false),
            (
                "status IS NOT NULL AND at IS NOT NULL AND \"Id\" IS NOT NULL",
                false,
            ),
            ("status = 'open' AND at IS NOT NULL", true),
            ("at IS NOT NULL AND total > 5", true),
        ] {
            assert_eq!(is_partial(condition), partial, "{condition}");
        }
    }

    #[test]
    fn types_are_read_whether_they_are_frozen_or_not() {
        let texts = Type::List(Box::new(Type::Text));
        assert_eq!(type_there("list<text>"), Some(texts.clone()));
        assert_eq!(type_there("frozen<list<text>>"), Some(texts));
        assert_eq!(type_there("counter"), Some(Type::BigInt));
        assert_eq!(type_there("frozen<place>"), None);
        assert_eq!(
            type_there("'org.apache.cassandra.db.marshal.DynamicCompositeType'"),
            None
        );
    }
}
