//! Conversion of tables to CQL and back.
//!
//! Cassandra's own schema does not store the order of the columns outside the key, nor whether they
//! are written plainly or conditionally. Recto stores both as JSON in the table's comment, after a
//! mark that identifies its tables.

use std::fmt::Write as _;
use std::sync::Arc;

use recto_model::table::{ColumnKind, Compaction, Direction, TableOptions, WriteKind};
use recto_model::types::UdtType;
use recto_model::{Column, Table, Type};
use recto_store::StoreError;
use recto_store::tables::added_columns;
use serde_json::{Value, json};

use crate::cql::{push_quoted, quoted, string_literal, table_name};
use crate::escape::is_escaped;

/// Version of the comment of a table whose partition keys are [escaped](crate::escape).
const COMMENT_VERSION: u8 = 2;
/// Version of the comment of a table whose partition keys are not escaped.
const WITHOUT_ESCAPES: u8 = 1;
/// Table option that allows emptying and dropping a table without a snapshot.
pub(crate) const ALLOW_AUTO_SNAPSHOT: &str = "allow_auto_snapshot";
/// Maximum nesting depth of types. A deeper type is rejected as unknown.
const MAX_TYPE_DEPTH: usize = 32;

/// Form of the statements that create and extend tables. It depends on the oldest release among the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    /// True if tables with many deletions use `UnifiedCompactionStrategy`; otherwise
    /// `SizeTieredCompactionStrategy`.
    pub(crate) has_unified_compaction: bool,
    /// True if `ALTER TABLE … ADD` ignores columns that exist, by `IF NOT EXISTS`.
    pub(crate) has_add_if_not_exists: bool,
    /// True if a table can have the option [`ALLOW_AUTO_SNAPSHOT`].
    pub(crate) has_snapshots_by_table: bool,
}

impl Dialect {
    /// Form for Cassandra 5.0 and newer.
    pub const NEWEST: Self = Self {
        has_unified_compaction: true,
        has_add_if_not_exists: true,
        has_snapshots_by_table: true,
    };

    /// Returns the statements that create `table` in `keyspace`: first the user-defined types that it
    /// needs, inner types before outer ones, then the table. For people and for `recto plan`;
    /// [`create_table`](recto_store::Store::create_table) sends the statements.
    pub fn create_table_cql(self, keyspace: &str, table: &Table) -> Vec<String> {
        let mut statements: Vec<String> = udts_of(table)
            .iter()
            .map(|udt| create_type_cql(keyspace, udt))
            .collect();
        statements.push(self.create_one_table_cql(keyspace, table));
        statements
    }

    /// Returns the statements that turn `there`, a table with fewer columns, into `table`. They add the
    /// missing user-defined types, the columns, and the comment that lists the columns. For people and
    /// for `recto plan`; [`add_columns`](recto_store::Store::add_columns) sends the statements.
    ///
    /// # Errors
    /// `Table`, if these statements cannot turn `there` into `table`.
    pub fn add_columns_cql(
        self,
        keyspace: &str,
        there: &Table,
        table: &Table,
    ) -> Result<Vec<String>, StoreError> {
        let added = added_columns(there, table)?;
        if added.is_empty() {
            return Ok(Vec::new());
        }
        let known = udts_of(there);
        let mut statements: Vec<String> = udts_of(table)
            .iter()
            .filter(|udt| !known.contains(udt))
            .map(|udt| create_type_cql(keyspace, udt))
            .collect();
        statements.push(self.add_columns_one_cql(keyspace, table.name(), added));
        statements.push(comment_cql(keyspace, table));
        Ok(statements)
    }

    /// Returns the statement that adds columns. It ignores columns that exist, if the cluster has
    /// [`has_add_if_not_exists`](Self::has_add_if_not_exists).
    pub(crate) fn add_columns_one_cql(self, keyspace: &str, table: &str, columns: &[Column]) -> String {
        let columns: Vec<String> = columns
            .iter()
            .map(|column| format!("{} {}", quoted(&column.name), type_cql(&column.ty)))
            .collect();
        let condition = if self.has_add_if_not_exists {
            "IF NOT EXISTS "
        } else {
            ""
        };
        format!(
            "ALTER TABLE {} ADD {condition}({})",
            table_name(keyspace, table),
            columns.join(", ")
        )
    }

    /// Returns the statement that creates `table`, whose user-defined types must exist.
    pub(crate) fn create_one_table_cql(self, keyspace: &str, table: &Table) -> String {
        let mut text = format!(
            "CREATE TABLE IF NOT EXISTS {} (",
            table_name(keyspace, table.name())
        );
        for column in table.columns() {
            push_quoted(&mut text, &column.name);
            text.push(' ');
            text.push_str(&type_cql(&column.ty));
            if matches!(column.kind, ColumnKind::Static(_)) {
                text.push_str(" STATIC");
            }
            text.push_str(", ");
        }
        text.push_str("PRIMARY KEY ((");
        push_names(&mut text, table.partition());
        text.push(')');
        if !table.clustering().is_empty() {
            text.push_str(", ");
            push_names(&mut text, table.clustering());
        }
        text.push_str(")) WITH ");
        let mut options = self.options_of(table);
        if has_own_id(table) {
            options.push(format!("id = {}", own_id(keyspace, table.name())));
        }
        text.push_str(&options.join(" AND "));
        text
    }

    /// Returns the options that follow `WITH` in the statement that creates `table`.
    fn options_of(self, table: &Table) -> Vec<String> {
        let mut options = Vec::new();
        if !table.clustering().is_empty() {
            options.push(clustering_order(table));
        }
        options.push(format!("gc_grace_seconds = {}", table.options().gc_grace_seconds));
        if table.options().compaction == Compaction::Tombstones {
            let class = if self.has_unified_compaction {
                "UnifiedCompactionStrategy"
            } else {
                "SizeTieredCompactionStrategy"
            };
            options.push(format!(
                "compaction = {{'class': '{class}', 'unchecked_tombstone_compaction': 'true'}}"
            ));
        }
        if !table.options().automatic_snapshots && self.has_snapshots_by_table {
            options.push(format!("{ALLOW_AUTO_SNAPSHOT} = false"));
        }
        options.push(format!("comment = {}", string_literal(&comment(table))));
        options
    }
}

/// Returns the user-defined types that `table` needs, inner types first, each once.
pub(crate) fn udts_of(table: &Table) -> Vec<Arc<UdtType>> {
    let mut udts = Vec::new();
    for column in table.columns() {
        collect_udts(&column.ty, &mut udts);
    }
    udts
}

fn collect_udts(ty: &Type, udts: &mut Vec<Arc<UdtType>>) {
    match ty {
        Type::List(element) | Type::Set(element) | Type::Vector(element, _) => collect_udts(element, udts),
        Type::Map(key, value) => {
            collect_udts(key, udts);
            collect_udts(value, udts);
        }
        Type::Tuple(elements) => elements.iter().for_each(|element| collect_udts(element, udts)),
        Type::Udt(udt) => {
            udt.fields.iter().for_each(|(_, field)| collect_udts(field, udts));
            if !udts.iter().any(|known| known.name == udt.name) {
                udts.push(Arc::clone(udt));
            }
        }
        _ => {}
    }
}

/// Returns the statement that sets the comment of `table` to its current description.
pub(crate) fn comment_cql(keyspace: &str, table: &Table) -> String {
    format!(
        "ALTER TABLE {} WITH comment = {}",
        table_name(keyspace, table.name()),
        string_literal(&comment(table))
    )
}

/// Returns the statement that drops a table with its rows.
pub fn drop_table_cql(keyspace: &str, table: &str) -> String {
    format!("DROP TABLE IF EXISTS {}", table_name(keyspace, table))
}

/// Returns the statement that creates one user-defined type.
pub(crate) fn create_type_cql(keyspace: &str, udt: &UdtType) -> String {
    let fields: Vec<String> = udt
        .fields
        .iter()
        .map(|(name, ty)| format!("{} {}", quoted(name), type_cql(ty)))
        .collect();
    format!(
        "CREATE TYPE IF NOT EXISTS {} ({})",
        table_name(keyspace, &udt.name),
        fields.join(", ")
    )
}

/// Returns whether a table's id derives from its name. Otherwise Cassandra draws a random id.
///
/// Cassandra stores the decisions of conditional writes by table id, apart from the table. A later
/// table of the same name and id would get these decisions, so tables with conditional columns have
/// no own id.
///
/// If a table without an own id is created again late, or through a node that does not know it yet,
/// it gets another id. Cassandra then drops the existing table with all its rows.
pub(crate) fn has_own_id(table: &Table) -> bool {
    let is_decided = |column: &Column| {
        matches!(
            column.kind,
            ColumnKind::Static(WriteKind::Cas) | ColumnKind::Regular(WriteKind::Cas)
        )
    };
    !table.options().automatic_snapshots && !table.columns().iter().any(is_decided)
}

/// Returns an id that no table of another name or keyspace has.
pub(crate) fn own_id(keyspace: &str, table: &str) -> String {
    let hash = blake3::hash(format!("{keyspace}.{table}").as_bytes()).to_hex();
    // Write a UUID of version 8, because the creator of such a UUID defines its content.
    format!(
        "{}-{}-8{}-8{}-{}",
        &hash[..8],
        &hash[8..12],
        &hash[12..15],
        &hash[15..18],
        &hash[18..30]
    )
}

/// Returns the option that sets the sort order of a table's rows.
fn clustering_order(table: &Table) -> String {
    let order: Vec<String> = table
        .clustering()
        .iter()
        .enumerate()
        .map(|(index, column)| {
            let direction = match table.clustering_direction(index) {
                Direction::Ascending => "ASC",
                Direction::Descending => "DESC",
            };
            format!("{} {direction}", quoted(&column.name))
        })
        .collect();
    format!("CLUSTERING ORDER BY ({})", order.join(", "))
}

fn push_names(text: &mut String, columns: &[Column]) {
    for (index, column) in columns.iter().enumerate() {
        if index > 0 {
            text.push_str(", ");
        }
        push_quoted(text, &column.name);
    }
}

/// Returns a type as a column's definition writes it: collections, tuples and user-defined types
/// are frozen.
fn type_cql(ty: &Type) -> String {
    let mut text = String::new();
    push_type(&mut text, ty);
    text
}

/// Appends a type to `text`, as a column's definition in CQL writes it.
pub(crate) fn push_type(text: &mut String, ty: &Type) {
    let written = match ty {
        Type::List(element) => write!(text, "frozen<list<{}>>", type_cql(element)),
        Type::Set(element) => write!(text, "frozen<set<{}>>", type_cql(element)),
        Type::Map(key, value) => write!(text, "frozen<map<{}, {}>>", type_cql(key), type_cql(value)),
        Type::Tuple(elements) => {
            let elements: Vec<String> = elements.iter().map(type_cql).collect();
            write!(text, "frozen<tuple<{}>>", elements.join(", "))
        }
        Type::Udt(udt) => write!(text, "frozen<{}>", quoted(&udt.name)),
        Type::Vector(element, dimension) => write!(text, "vector<{}, {dimension}>", type_cql(element)),
        other => write!(text, "{other}"),
    };
    written.expect("writing to a string cannot fail");
}

/// First words of the comment of every table that Recto creates, in each version of the comment.
const COMMENT_WORDS: &str = "recto table ";

/// Splits the comment of a table into its version and the JSON after it. `None`: Recto did not
/// write the comment, or this release does not know the version.
fn read_comment(comment: &str) -> Option<(u8, &str)> {
    let (version, rest) = comment.strip_prefix(COMMENT_WORDS)?.split_once(' ')?;
    let version = version.parse().ok()?;
    matches!(version, WITHOUT_ESCAPES | COMMENT_VERSION).then_some((version, rest))
}

/// Returns whether Recto created the table with this comment, in this version or another.
pub(crate) fn is_comment_of_recto(comment: &str) -> bool {
    comment.starts_with(COMMENT_WORDS)
}

/// Returns the comment that Recto stores with `table`: its mark, the version, and the columns and
/// compaction as JSON.
fn comment(table: &Table) -> String {
    let columns: Vec<Value> = table
        .columns()
        .iter()
        .map(|column| {
            let kind = match column.kind {
                ColumnKind::Static(WriteKind::Cas) | ColumnKind::Regular(WriteKind::Cas) => "cas",
                ColumnKind::Static(WriteKind::Plain) | ColumnKind::Regular(WriteKind::Plain) => "plain",
                ColumnKind::Partition | ColumnKind::Clustering(_) => "key",
            };
            json!([column.name, kind])
        })
        .collect();
    let compaction = match table.options().compaction {
        Compaction::Default => "default",
        Compaction::Tombstones => "tombstones",
    };
    let version = if is_escaped(table) {
        COMMENT_VERSION
    } else {
        WITHOUT_ESCAPES
    };
    format!(
        "{COMMENT_WORDS}{version} {}",
        json!({ "columns": columns, "compaction": compaction })
    )
}

/// Column of an existing table, as Cassandra's `system_schema.columns` describes it.
#[derive(Debug, Clone)]
pub(crate) struct SchemaColumn {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) clustering_order: String,
    pub(crate) ty: String,
}

/// Existing table, as Cassandra's `system_schema` describes it.
#[derive(Debug, Clone)]
pub(crate) struct SchemaTable {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) comment: String,
    pub(crate) gc_grace_seconds: u32,
    pub(crate) automatic_snapshots: bool,
    pub(crate) columns: Vec<SchemaColumn>,
}

impl SchemaTable {
    /// Returns whether Recto created the table and this release can read its comment.
    pub(crate) fn is_ours(&self) -> bool {
        read_comment(&self.comment).is_some()
    }

    /// Returns the table as Recto created it. Columns that its comment does not list do not belong
    /// to it: an addition of columns was interrupted, or another program added them. They have no
    /// effect, because Recto names the columns in every statement.
    ///
    /// # Errors
    /// A message, if the comment and the schema do not match, because another program changed the
    /// table.
    pub(crate) fn table(&self, udts: &[SchemaUdt]) -> Result<Table, String> {
        let (version, comment) = read_comment(&self.comment).ok_or("Recto did not create it")?;
        let comment: Value =
            serde_json::from_str(comment).map_err(|error| format!("its comment is damaged: {error}"))?;
        let named = comment["columns"]
            .as_array()
            .ok_or("its comment names no columns")?;
        let mut columns = Vec::with_capacity(named.len());
        for entry in named {
            let name = entry[0].as_str().ok_or("its comment is damaged")?;
            let column = self
                .columns
                .iter()
                .find(|column| column.name == name)
                .ok_or_else(|| format!("column {name} was dropped or renamed"))?;
            let told = match entry[1].as_str() {
                Some("cas") => Some(ColumnKind::Regular(WriteKind::Cas)),
                Some("plain" | "key") => None,
                _ => return Err(format!("its comment does not say how column {name} is written")),
            };
            columns.push(column.column(told, udts)?);
        }
        let options = TableOptions {
            compaction: match comment["compaction"].as_str() {
                Some("tombstones") => Compaction::Tombstones,
                _ => Compaction::Default,
            },
            gc_grace_seconds: self.gc_grace_seconds,
            automatic_snapshots: self.automatic_snapshots,
            counts_rows: false,
            buckets: None,
            allows_empty_partition: version == COMMENT_VERSION,
        };
        Table::new(self.name.as_str(), columns, options).map_err(|error| error.to_string())
    }
}

impl SchemaColumn {
    /// Returns whether this column, which no comment lists, can serve as `wanted`, a regular
    /// column.
    pub(crate) fn is(&self, wanted: &Column, udts: &[SchemaUdt]) -> bool {
        self.is_regular() && parse_type(&self.ty, udts).as_ref() == Ok(&wanted.ty)
    }

    pub(crate) fn is_regular(&self) -> bool {
        self.kind == "regular"
    }

    /// Describes a column that differs from `wanted` or that Recto does not want.
    pub(crate) fn other_than(&self, wanted: Option<&Column>) -> String {
        let (name, ty) = (&self.name, &self.ty);
        match wanted {
            None => format!("there is an additional column {name}, {} of type {ty}", self.kind),
            Some(wanted) => format!("column {name} has type {ty}, not {}", wanted.ty),
        }
    }

    /// Returns the role of the column in its table, for a column that is written as `write` says.
    /// Returns `None` if Recto does not know the role.
    pub(crate) fn kind_of(&self, write: WriteKind) -> Option<ColumnKind> {
        Some(match self.kind.as_str() {
            "partition_key" => ColumnKind::Partition,
            "clustering" if self.clustering_order == "desc" => ColumnKind::Clustering(Direction::Descending),
            "clustering" => ColumnKind::Clustering(Direction::Ascending),
            "static" => ColumnKind::Static(write),
            "regular" => ColumnKind::Regular(write),
            _ => return None,
        })
    }

    /// Converts the column to a column of Recto. `told` is the kind that the table's comment or
    /// Recto's schema gives it. Without `told`, a static or regular column counts as written
    /// plainly.
    pub(crate) fn column(&self, told: Option<ColumnKind>, udts: &[SchemaUdt]) -> Result<Column, String> {
        let write = match told {
            Some(ColumnKind::Static(write) | ColumnKind::Regular(write)) => write,
            _ => WriteKind::Plain,
        };
        let kind = self
            .kind_of(write)
            .ok_or_else(|| format!("column {} has the kind {}", self.name, self.kind))?;
        Ok(Column {
            name: self.name.clone(),
            ty: parse_type(&self.ty, udts)?,
            kind,
        })
    }
}

/// User-defined type as `system_schema.types` describes it.
#[derive(Debug, Clone)]
pub(crate) struct SchemaUdt {
    pub(crate) name: String,
    pub(crate) fields: Vec<(String, String)>,
}

impl SchemaUdt {
    /// Converts the user-defined type to Recto's type. The error is a message about a type that
    /// Recto does not know.
    pub(crate) fn udt(&self, udts: &[SchemaUdt]) -> Result<UdtType, String> {
        self.udt_at(udts, 0)
    }

    fn udt_at(&self, udts: &[SchemaUdt], depth: usize) -> Result<UdtType, String> {
        let fields = self
            .fields
            .iter()
            .map(|(name, ty)| {
                TypeText {
                    rest: ty,
                    udts,
                    whole: ty,
                }
                .whole(depth)
                .map(|ty| (name.clone(), ty))
            })
            .collect::<Result<_, _>>()?;
        Ok(UdtType {
            name: self.name.clone(),
            fields,
        })
    }
}

/// Parses a type as Cassandra's `system_schema` writes it. `udts` are the keyspace's user-defined
/// types.
pub(crate) fn parse_type(text: &str, udts: &[SchemaUdt]) -> Result<Type, String> {
    TypeText {
        rest: text,
        udts,
        whole: text,
    }
    .whole(0)
}

/// Parser of the text of a CQL type. `rest` is the part that is not parsed yet.
struct TypeText<'a> {
    rest: &'a str,
    whole: &'a str,
    udts: &'a [SchemaUdt],
}

impl TypeText<'_> {
    fn whole(mut self, depth: usize) -> Result<Type, String> {
        let ty = self.ty(depth)?;
        if self.rest.trim().is_empty() {
            Ok(ty)
        } else {
            Err(self.damaged())
        }
    }

    fn damaged(&self) -> String {
        format!("Recto does not know the type {:?}", self.whole)
    }

    fn ty(&mut self, depth: usize) -> Result<Type, String> {
        if depth > MAX_TYPE_DEPTH {
            return Err(self.damaged());
        }
        let (name, is_quoted) = self.name()?;
        if !is_quoted {
            if let Some(native) = native(&name) {
                return Ok(native);
            }
            if self.eat('<') {
                return self.generic(&name, depth + 1);
            }
        }
        let udt = self.udts.iter().find(|udt| udt.name == name);
        let udt = udt.ok_or_else(|| self.damaged())?;
        Ok(Type::Udt(Arc::new(udt.udt_at(self.udts, depth + 1)?)))
    }

    fn generic(&mut self, name: &str, depth: usize) -> Result<Type, String> {
        let first = self.ty(depth)?;
        let ty = match name {
            "frozen" => first,
            "list" => Type::List(Box::new(first)),
            "set" => Type::Set(Box::new(first)),
            "map" => {
                self.expect(',')?;
                Type::Map(Box::new(first), Box::new(self.ty(depth)?))
            }
            "vector" => {
                self.expect(',')?;
                let (dimension, _) = self.name()?;
                Type::Vector(Box::new(first), dimension.parse().map_err(|_| self.damaged())?)
            }
            "tuple" => {
                let mut elements = vec![first];
                while self.eat(',') {
                    elements.push(self.ty(depth)?);
                }
                Type::Tuple(elements)
            }
            _ => return Err(self.damaged()),
        };
        self.expect('>')?;
        Ok(ty)
    }

    /// Removes a name or number from the start of the text. Also returns whether the name was
    /// quoted.
    fn name(&mut self) -> Result<(String, bool), String> {
        self.rest = self.rest.trim_start();
        if let Some(rest) = self.rest.strip_prefix('"') {
            let end = rest.find('"').ok_or_else(|| self.damaged())?;
            let name = rest[..end].to_owned();
            self.rest = &rest[end + 1..];
            return Ok((name, true));
        }
        let end = self
            .rest
            .find(|character: char| !character.is_ascii_alphanumeric() && character != '_')
            .unwrap_or(self.rest.len());
        if end == 0 {
            return Err(self.damaged());
        }
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok((name.to_owned(), false))
    }

    fn eat(&mut self, character: char) -> bool {
        match self.rest.trim_start().strip_prefix(character) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, character: char) -> Result<(), String> {
        if self.eat(character) {
            Ok(())
        } else {
            Err(self.damaged())
        }
    }
}

fn native(name: &str) -> Option<Type> {
    if name == "varchar" {
        return Some(Type::Text);
    }
    if name == "duration" {
        return Some(Type::Duration);
    }
    Type::ORDERABLE.into_iter().find(|ty| ty.to_string() == name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn column(name: &str, ty: Type, kind: ColumnKind) -> Column {
        Column {
            name: name.to_owned(),
            ty,
            kind,
        }
    }

    fn inner() -> Type {
        Type::Udt(Arc::new(UdtType {
            name: "inner".to_owned(),
            fields: vec![("n".to_owned(), Type::List(Box::new(Type::Int)))],
        }))
    }

    fn outer() -> Type {
        Type::Udt(Arc::new(UdtType {
            name: "outer".to_owned(),
            fields: vec![("i".to_owned(), inner()), ("t".to_owned(), Type::Text)],
        }))
    }

    fn table() -> Table {
        Table::new(
            "things",
            vec![
                column("p", Type::Text, ColumnKind::Partition),
                column("b", Type::BigInt, ColumnKind::Clustering(Direction::Descending)),
                column("a", Type::Uuid, ColumnKind::Clustering(Direction::Ascending)),
                column("s", Type::Int, ColumnKind::Static(WriteKind::Cas)),
                column(
                    "z",
                    Type::Map(Box::new(Type::Text), Box::new(outer())),
                    ColumnKind::Regular(WriteKind::Plain),
                ),
                column(
                    "v",
                    Type::Vector(Box::new(Type::Float), 3),
                    ColumnKind::Regular(WriteKind::Cas),
                ),
            ],
            TableOptions {
                compaction: Compaction::Tombstones,
                gc_grace_seconds: 14_400,
                automatic_snapshots: false,
                counts_rows: false,
                buckets: None,
                allows_empty_partition: false,
            },
        )
        .unwrap()
    }

    #[test]
    fn a_table_as_cql() {
        assert_eq!(
            Dialect::NEWEST.create_table_cql("shop", &table()),
            [
                r#"CREATE TYPE IF NOT EXISTS "shop"."inner" ("n" frozen<list<int>>)"#,
                r#"CREATE TYPE IF NOT EXISTS "shop"."outer" ("i" frozen<"inner">, "t" text)"#,
                concat!(
                    r#"CREATE TABLE IF NOT EXISTS "shop"."things" ("p" text, "b" bigint, "a" uuid, "s" int STATIC, "#,
                    r#""z" frozen<map<text, frozen<"outer">>>, "v" vector<float, 3>, "#,
                    r#"PRIMARY KEY (("p"), "b", "a")) WITH CLUSTERING ORDER BY ("b" DESC, "a" ASC) AND "#,
                    "gc_grace_seconds = 14400 AND compaction = {'class': 'UnifiedCompactionStrategy', ",
                    "'unchecked_tombstone_compaction': 'true'} AND allow_auto_snapshot = false AND ",
                    "comment = 'recto table 1 ",
                    r#"{"columns":[["p","key"],["b","key"],["a","key"],["s","cas"],["z","plain"],["v","cas"]],"#,
                    r#""compaction":"tombstones"}'"#,
                ),
            ]
        );
    }

    #[test]
    fn older_releases_get_statements_that_they_know() {
        let oldest = Dialect {
            has_unified_compaction: false,
            has_add_if_not_exists: false,
            has_snapshots_by_table: false,
        };
        let created = oldest.create_table_cql("shop", &table()).pop().unwrap();
        assert!(created.contains(
            "compaction = {'class': 'SizeTieredCompactionStrategy', 'unchecked_tombstone_compaction': 'true'}"
        ));
        assert!(!created.contains("allow_auto_snapshot"), "{created}");
        assert!(
            created.contains("\"compaction\":\"tombstones\""),
            "the comment does not change"
        );
        let added = oldest.add_columns_one_cql("shop", "things", &table().columns()[3..4]);
        assert_eq!(added, r#"ALTER TABLE "shop"."things" ADD ("s" int)"#);
    }

    #[test]
    fn a_table_that_is_emptied_whole_has_one_id_whoever_makes_it() {
        let columns = vec![
            column("p", Type::Text, ColumnKind::Partition),
            column("z", Type::Int, ColumnKind::Regular(WriteKind::Plain)),
        ];
        let options = TableOptions {
            automatic_snapshots: false,
            ..TableOptions::default()
        };
        let emptied = |name: &str| Table::new(name, columns.clone(), options).unwrap();
        let id = |keyspace: &str, name: &str| {
            let text = Dialect::NEWEST.create_one_table_cql(keyspace, &emptied(name));
            text.rsplit_once("id = ").unwrap().1.to_owned()
        };
        // All releases must compute this id, so that they create the same table.
        assert_eq!(id("shop", "bodies_1"), "476b37e3-1399-89cc-8d89-a92489583871");
        assert_ne!(id("shop", "bodies_1"), id("shop", "bodies_2"));
        assert_ne!(id("shop", "bodies_1"), id("other", "bodies_1"));
        let kept = Table::new("kept", columns.clone(), TableOptions::default()).unwrap();
        assert!(
            !Dialect::NEWEST
                .create_one_table_cql("shop", &kept)
                .contains("id = ")
        );
    }

    #[test]
    fn comments_are_written_as_every_release_reads_them() {
        let escaped = TableOptions {
            allows_empty_partition: true,
            ..table().options()
        };
        for (options, golden) in [
            (table().options(), include_str!("golden/table-comment-v1.txt")),
            (escaped, include_str!("golden/table-comment-v2.txt")),
        ] {
            let table = Table::new("things", table().columns().to_vec(), options).unwrap();
            assert_eq!(comment(&table), golden.trim_end());
        }
    }

    #[test]
    fn added_columns_as_cql() {
        let more = |columns: Vec<Column>| {
            let columns = table().columns().iter().cloned().chain(columns).collect();
            Table::new("things", columns, table().options()).unwrap()
        };
        let plain = ColumnKind::Regular(WriteKind::Plain);
        let other = Type::Udt(Arc::new(UdtType {
            name: "other".to_owned(),
            fields: vec![("i".to_owned(), inner())],
        }));
        let wanted = more(vec![column("o", other, plain), column("n", Type::Int, plain)]);
        assert_eq!(
            Dialect::NEWEST
                .add_columns_cql("shop", &table(), &wanted)
                .unwrap(),
            [
                r#"CREATE TYPE IF NOT EXISTS "shop"."other" ("i" frozen<"inner">)"#,
                r#"ALTER TABLE "shop"."things" ADD IF NOT EXISTS ("o" frozen<"other">, "n" int)"#,
                concat!(
                    r#"ALTER TABLE "shop"."things" WITH comment = 'recto table 1 "#,
                    r#"{"columns":[["p","key"],["b","key"],["a","key"],["s","cas"],["z","plain"],["v","cas"],"#,
                    r#"["o","plain"],["n","plain"]],"compaction":"tombstones"}'"#,
                ),
            ]
        );
        assert!(
            Dialect::NEWEST
                .add_columns_cql("shop", &table(), &table())
                .unwrap()
                .is_empty()
        );
        assert!(
            Dialect::NEWEST
                .add_columns_cql("shop", &wanted, &table())
                .is_err()
        );
    }

    #[test]
    fn types_are_read_back() {
        let udts = [
            SchemaUdt {
                name: "inner".to_owned(),
                fields: vec![("n".to_owned(), "frozen<list<int>>".to_owned())],
            },
            SchemaUdt {
                name: "outer".to_owned(),
                fields: vec![
                    ("i".to_owned(), "frozen<inner>".to_owned()),
                    ("t".to_owned(), "text".to_owned()),
                ],
            },
        ];
        for (text, ty) in [
            (
                "frozen<map<text, frozen<outer>>>",
                Type::Map(Box::new(Type::Text), Box::new(outer())),
            ),
            ("vector<float, 3>", Type::Vector(Box::new(Type::Float), 3)),
            (
                "frozen<tuple<int, varchar, duration>>",
                Type::Tuple(vec![Type::Int, Type::Text, Type::Duration]),
            ),
            ("frozen<\"inner\">", inner()),
            ("frozen<set<timeuuid>>", Type::Set(Box::new(Type::TimeUuid))),
        ] {
            assert_eq!(parse_type(text, &udts), Ok(ty), "{text}");
        }
        for damaged in [
            "",
            "list<",
            "list<int",
            "list<int>>",
            "counter",
            "nobody",
            "vector<int, x>",
            "map<int>",
            "\"x",
        ] {
            assert!(parse_type(damaged, &udts).is_err(), "{damaged}");
        }
    }

    #[test]
    fn a_type_that_holds_itself_is_refused() {
        let udts = [SchemaUdt {
            name: "me".to_owned(),
            fields: vec![("m".to_owned(), "frozen<me>".to_owned())],
        }];
        assert!(parse_type("me", &udts).is_err());
    }
}
