//! Text of statements, with the types and values of their bind markers.
//!
//! Statements always quote names, always bind values, and always list columns in the table's order.
//! The text depends only on the statement's shape, so each shape is prepared once.

use std::borrow::Cow;

use recto_model::schema::AttachedTable;
use recto_model::table::{ColumnKind, Direction};
use recto_model::{Cells, Column, Table, Type};
use recto_store::{ColumnSet, ReadOptions};

use crate::ddl::push_type;
use crate::escape::{escaped, is_escaped};
use crate::literal;
use crate::pieces::{Piece, TupleBound};
use crate::values::Values;

/// Type of a bind marker for `LIMIT` and `TTL`.
static INT: Type = Type::Int;
/// Type of a bind marker or result column that holds a write timestamp or a token.
static BIGINT: Type = Type::BigInt;

/// Capacity for the text of most statements that read.
const SELECT_CHARS: usize = 512;

/// Meaning of a cell without bytes in a table that another program created.
///
/// Cassandra has such cells of every type: `blobAsInt(0x)` and old Thrift clients write them. Its drivers show null.
#[derive(Debug, Clone, Copy)]
pub(crate) enum EmptyCell<'t> {
    /// A value of the type, as an empty text is.
    Value,
    Null,
    /// In this column of the key it has a place before all values, which the type has no name for.
    Unordered(&'t Column),
    /// An unordered one whose row is left out.
    LeftOut,
}

impl<'t> EmptyCell<'t> {
    pub(crate) fn of(column: &'t Column) -> Self {
        match (&column.ty, column.kind) {
            (Type::Text | Type::Ascii | Type::Blob | Type::Tuple(_) | Type::Udt(_), _) => Self::Value,
            (_, ColumnKind::Partition | ColumnKind::Clustering(_)) => Self::Unordered(column),
            _ => Self::Null,
        }
    }
}

/// One statement: its text, what its bind markers are, their values, and what its result holds.
#[derive(Debug, Clone)]
pub(crate) struct Request<'t> {
    pub(crate) text: String,
    pub(crate) marker_types: Vec<Cow<'t, Type>>,
    pub(crate) values: Values,
    pub(crate) result_types: Vec<&'t Type>,
    /// Meaning of an empty cell in each of the first result columns. It has as many entries as there are columns of an
    /// attached table, and none for a table of Recto.
    pub(crate) empty_cells: Vec<EmptyCell<'t>>,
    /// True if the first result column is an [escaped](crate::escape) partition key.
    pub(crate) has_escaped_partition: bool,
}

impl<'t> Request<'t> {
    fn new(text: String) -> Self {
        Self {
            text,
            marker_types: Vec::new(),
            values: Values::default(),
            result_types: Vec::new(),
            empty_cells: Vec::new(),
            has_escaped_partition: false,
        }
    }

    /// The answer holds these columns next.
    fn expect_columns(&mut self, table: &Table, columns: &'t [Column]) {
        let is_first = self.result_types.is_empty();
        let is_partition = columns
            .first()
            .is_some_and(|column| column.kind == ColumnKind::Partition);
        self.has_escaped_partition |= is_first && is_partition && is_escaped(table);
        self.result_types.extend(columns.iter().map(|column| &column.ty));
        if AttachedTable::keyspace_of(table.name()).is_some() {
            self.empty_cells.extend(columns.iter().map(EmptyCell::of));
        }
    }

    fn bind(&mut self, ty: &'t Type, cell: Option<&[u8]>) {
        self.marker_types.push(Cow::Borrowed(ty));
        self.values.push(cell);
    }

    fn bind_unset(&mut self, ty: &'t Type) {
        self.marker_types.push(Cow::Borrowed(ty));
        self.values.push_unset();
    }

    fn bind_int(&mut self, value: i32) {
        self.marker_types.push(Cow::Borrowed(&INT));
        self.values.push_int(value);
    }

    fn bind_bigint(&mut self, value: i64) {
        self.marker_types.push(Cow::Borrowed(&BIGINT));
        self.values.push_bigint(value);
    }

    fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// A bind marker that says its type: where a column is of another by now, the driver, which prepares a
    /// statement again that Cassandra forgot, is refused, in place of writing the wrong bytes.
    fn push_typed_marker(&mut self, ty: &Type) {
        self.text.push('(');
        push_type(&mut self.text, ty);
        self.text.push_str(")?");
    }

    fn push_name(&mut self, name: &str) {
        push_quoted(&mut self.text, name);
    }

    /// The same with another limit. The limit is the last value of every select that has one.
    pub(crate) fn limited(mut self, limit: u32) -> Self {
        self.values.pop();
        self.values.push_int(i32::try_from(limit).unwrap_or(i32::MAX));
        self
    }

    /// Leaves out rows with an empty cell in one of these columns of the table's key.
    pub(crate) fn leaving_out(mut self, columns: ColumnSet, table: &Table) -> Self {
        for empty in &mut self.empty_cells {
            let EmptyCell::Unordered(column) = empty else {
                continue;
            };
            let column = table.column_index(&column.name);
            if column.is_some_and(|column| columns.contains(column)) {
                *empty = EmptyCell::LeftOut;
            }
        }
        self
    }

    /// The text with its values in place of their markers, for people and cqlsh.
    pub(crate) fn describe(&self) -> String {
        let mut text = String::with_capacity(2 * self.text.len());
        let mut values = self.marker_types.iter().zip(self.values.iter());
        let mut in_name = false;
        for character in self.text.chars() {
            in_name ^= character == '"';
            match (character, in_name) {
                ('?', false) => match values.next() {
                    Some((ty, Some(Some(cell)))) => text.push_str(&literal::of_cell(ty, cell)),
                    _ => text.push_str("null"),
                },
                _ => text.push(character),
            }
        }
        text.push(';');
        text
    }
}

/// Appends `name` as a quoted identifier.
pub(crate) fn push_quoted(text: &mut String, name: &str) {
    text.push('"');
    for (index, part) in name.split('"').enumerate() {
        if index > 0 {
            text.push_str("\"\"");
        }
        text.push_str(part);
    }
    text.push('"');
}

/// `name` as a quoted identifier.
pub(crate) fn quoted(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 2);
    push_quoted(&mut text, name);
    text
}

/// `text` as a string literal.
pub(crate) fn string_literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// What a table is called in its keyspace: those that are attached are known with its name before theirs.
pub(crate) fn name_in_keyspace(table: &str) -> &str {
    table.split_once('.').map_or(table, |(_, name)| name)
}

/// `"keyspace"."table"`.
pub(crate) fn table_name(keyspace: &str, table: &str) -> String {
    let table = name_in_keyspace(table);
    let mut text = String::with_capacity(keyspace.len() + table.len() + "\"\".\"\"".len());
    push_quoted(&mut text, keyspace);
    text.push('.');
    push_quoted(&mut text, table);
    text
}

/// The statements of one table in one keyspace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Statements<'t> {
    keyspace: &'t str,
    table: &'t Table,
}

/// What a statement selects of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Selected {
    /// The columns of its partition.
    pub(crate) partition: bool,
    /// What it leaves out behind the key: who selects a static column has Cassandra look for the partition's beginning.
    pub(crate) unseen: ColumnSet,
    /// The write times and times to live of its regular columns, in pairs behind all columns.
    pub(crate) stamps: bool,
}

impl Selected {
    /// Of the rows of any partitions.
    pub(crate) fn by(options: &ReadOptions) -> Self {
        Self {
            partition: true,
            unseen: options.unseen,
            stamps: options.stamps,
        }
    }

    /// Of the rows of one partition, which who reads them knows. It is told of where it is all that there may be of a row, and of
    /// tables that another program made: only by the types of what is told is it seen that one was made anew.
    pub(crate) fn in_partition(table: &Table, options: &ReadOptions) -> Self {
        Self {
            partition: table.clustering().is_empty() || AttachedTable::keyspace_of(table.name()).is_some(),
            ..Self::by(options)
        }
    }

    /// Whether it has the column of a table that stands there.
    pub(crate) fn has(self, table: &Table, column: usize) -> bool {
        let key_len = table.key_len();
        match column {
            column if column < table.partition().len() => self.partition,
            column => column < key_len || !self.unseen.contains(column - key_len),
        }
    }
}

/// From which end a statement reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    Clustering,
    Reversed,
}

impl<'t> Statements<'t> {
    pub(crate) fn new(keyspace: &'t str, table: &'t Table) -> Self {
        Self { keyspace, table }
    }

    /// The rows of one piece of a partition.
    pub(crate) fn select_piece(
        self,
        partition: &Cells,
        piece: &Piece,
        reading: Reading,
        limit: i32,
        selected: Selected,
    ) -> Request<'t> {
        let mut request = self.select_columns(selected);
        self.push_where_piece(&mut request, partition, piece);
        if reading == Reading::Reversed && !self.table.clustering().is_empty() {
            self.push_reversed_order(&mut request);
        }
        request.push(" LIMIT ?");
        request.bind_int(limit);
        request
    }

    /// The rows of these keys, in any order: of partitions that are one row each, and have a key of one column; or of this
    /// partition, whose rows have a key of one column. The limit is what has Cassandra read partitions side by side: it pages
    /// through them one after the other.
    pub(crate) fn select_keys(
        self,
        partition: Option<&Cells>,
        keys: &[&[u8]],
        selected: Selected,
    ) -> Request<'t> {
        let mut request = self.select_columns(selected);
        let column = if let Some(partition) = partition {
            self.push_where_partition(&mut request, partition);
            request.push(" AND ");
            &self.table.clustering()[0]
        } else {
            request.push(" WHERE ");
            &self.table.partition()[0]
        };
        request.push_name(&column.name);
        request.push(" IN ?");
        let list = Type::List(Box::new(column.ty.clone()));
        request.marker_types.push(Cow::Owned(list));
        if partition.is_none() && is_escaped(self.table) {
            let keys: Vec<_> = keys.iter().map(|key| escaped(key)).collect();
            request.values.push_list(keys.iter().map(|key| &**key));
        } else {
            request.values.push_list(keys.iter().copied());
        }
        request.push(" LIMIT ?");
        request.bind_int(i32::try_from(keys.len()).unwrap_or(i32::MAX));
        request
    }

    /// The rows with tokens after `after` up to and with `up_to`, each followed by its token and, with `stamps`, the
    /// write times and times to live of its regular columns, in pairs.
    pub(crate) fn select_tokens(
        self,
        (after, up_to): (Option<i64>, Option<i64>),
        limit: i32,
        stamps: bool,
    ) -> Request<'t> {
        let token = self.token();
        let mut request = Request::new("SELECT ".to_owned());
        push_columns(&mut request, self.table.columns());
        request.push(", ");
        request.push(&token);
        request.expect_columns(self.table, self.table.columns());
        request.result_types.push(&BIGINT);
        if stamps {
            self.push_lives(&mut request);
        }
        request.push(" FROM ");
        request.push(&table_name(self.keyspace, self.table.name()));
        self.push_where_tokens(&mut request, (after, up_to));
        request.push(" LIMIT ?");
        request.bind_int(limit);
        request
    }

    /// The partitions of tokens after `after` up to and with `up_to`: of each its key, its static columns, the
    /// [column that says whether it has a row](Self::row_column) and its token.
    pub(crate) fn select_partitions(
        self,
        (after, up_to): (Option<i64>, Option<i64>),
        limit: i32,
    ) -> Request<'t> {
        let mut request = self.select_each_partition();
        request.push(", ");
        request.push(&self.token());
        request.result_types.push(&BIGINT);
        request.push(" FROM ");
        request.push(&table_name(self.keyspace, self.table.name()));
        self.push_where_tokens(&mut request, (after, up_to));
        self.push_partition_limit(&mut request, limit);
        request
    }

    /// The partitions of one token, in the store's order: of each its key, its static columns, and the
    /// [column that says whether it has a row](Self::row_column).
    pub(crate) fn select_partitions_of_token(self, token: i64, limit: i32) -> Request<'t> {
        let mut request = self.select_each_partition();
        request.push(" FROM ");
        request.push(&table_name(self.keyspace, self.table.name()));
        request.push(" WHERE ");
        request.push(&self.token());
        request.push(" = ?");
        request.bind_bigint(token);
        self.push_partition_limit(&mut request, limit);
        request
    }

    /// Of a table that another program made, the column that is null in the one row that a partition of static cells alone is:
    /// which of its columns are static is not known there.
    pub(crate) fn row_column(self) -> Option<&'t Column> {
        AttachedTable::keyspace_of(self.table.name())?;
        self.table.clustering().first()
    }

    /// The key of a partition, its static columns, and the column that says whether it has a row.
    fn select_each_partition(self) -> Request<'t> {
        let distinct = if self.row_column().is_some() {
            ""
        } else {
            "DISTINCT "
        };
        let mut request = Request::new(format!("SELECT {distinct}"));
        push_columns(&mut request, self.table.partition());
        request.expect_columns(self.table, self.table.partition());
        if !self.table.statics().is_empty() {
            request.push(", ");
            push_columns(&mut request, self.table.statics());
            request.expect_columns(self.table, self.table.statics());
        }
        if let Some(column) = self.row_column() {
            request.push(", ");
            request.push_name(&column.name);
            request.expect_columns(self.table, std::slice::from_ref(column));
        }
        request
    }

    /// One row of each partition, which reads as much as asking for distinct keys does.
    fn push_partition_limit(self, request: &mut Request<'_>, limit: i32) {
        if self.row_column().is_some() {
            request.push(" PER PARTITION LIMIT 1");
        }
        request.push(" LIMIT ?");
        request.bind_int(limit);
    }

    /// Tokens after `after` up to and with `up_to`.
    fn push_where_tokens(self, request: &mut Request<'_>, (after, up_to): (Option<i64>, Option<i64>)) {
        let token = self.token();
        let mut separator = " WHERE ";
        for (operator, bound) in [(" > ?", after), (" <= ?", up_to)] {
            if let Some(bound) = bound {
                request.push(separator);
                request.push(&token);
                request.push(operator);
                request.bind_bigint(bound);
                separator = " AND ";
            }
        }
    }

    /// The static columns of a partition.
    pub(crate) fn select_statics(self, partition: &Cells) -> Request<'t> {
        let mut request = Request::new("SELECT DISTINCT ".to_owned());
        push_columns(&mut request, self.table.statics());
        request.push(" FROM ");
        request.push(&table_name(self.keyspace, self.table.name()));
        request.expect_columns(self.table, self.table.statics());
        self.push_where_partition(&mut request, partition);
        request
    }

    /// Sets the given regular columns of a row, which exists afterwards. `None` in `cells` is null
    /// if `nulls` says so, else not set.
    pub(crate) fn insert(self, write: &Insert<'_>, partition: &Cells) -> Request<'t> {
        let mut request = Request::new("INSERT INTO ".to_owned());
        request.push(&table_name(self.keyspace, self.table.name()));
        request.push(" (");
        push_columns(&mut request, &self.table.columns()[..self.table.key_len()]);
        for column in write.columns.iter() {
            request.push(", ");
            request.push_name(&self.table.regular()[usize::from(column)].name);
        }
        let key = self.table.columns()[..self.table.key_len()].iter();
        let set = write
            .columns
            .iter()
            .map(|column| &self.table.regular()[usize::from(column)]);
        for (index, column) in key.chain(set).enumerate() {
            request.push(if index == 0 { ") VALUES (" } else { ", " });
            request.push_typed_marker(&column.ty);
        }
        request.push(")");
        self.bind_partition(&mut request, partition);
        for (column, cell) in self.table.clustering().iter().zip(write.clustering.iter()) {
            request.bind(&column.ty, cell);
        }
        for (column, cell) in write.columns.iter().zip(write.cells.iter()) {
            let ty = &self.table.regular()[usize::from(column)].ty;
            if cell.is_none() && !write.nulls {
                request.bind_unset(ty);
            } else {
                request.bind(ty, cell);
            }
        }
        push_using(&mut request, write.stamp, write.ttl_seconds);
        request
    }

    /// Sets static columns.
    pub(crate) fn update_statics(
        self,
        partition: &Cells,
        columns: &[u16],
        cells: &Cells,
        stamp: Option<i64>,
        ttl_seconds: Option<u32>,
    ) -> Request<'t> {
        let mut request = self.update(stamp, ttl_seconds);
        for (index, (column, cell)) in columns.iter().zip(cells.iter()).enumerate() {
            request.push(if index == 0 { " SET " } else { ", " });
            let column = &self.table.statics()[usize::from(*column)];
            request.push_name(&column.name);
            request.push(" = ?");
            request.bind(&column.ty, cell);
        }
        self.push_where_partition(&mut request, partition);
        request
    }

    /// Deletes a row.
    pub(crate) fn delete_row(self, partition: &Cells, clustering: &Cells, stamp: Option<i64>) -> Request<'t> {
        let piece = Piece {
            pinned: clustering.clone(),
            lower: None,
            upper: None,
        };
        self.delete_piece(partition, &piece, stamp)
    }

    /// Deletes the rows of one piece; of a piece without any bound, the partition.
    pub(crate) fn delete_piece(self, partition: &Cells, piece: &Piece, stamp: Option<i64>) -> Request<'t> {
        let mut request = Request::new("DELETE FROM ".to_owned());
        request.push(&table_name(self.keyspace, self.table.name()));
        push_using(&mut request, stamp, None);
        self.push_where_piece(&mut request, partition, piece);
        request
    }

    /// A conditional statement that changes nothing (it sets a column to nothing, not to null): it
    /// carries conditions on static columns (`row` absent) or on one row into a batch.
    pub(crate) fn condition(
        self,
        partition: &Cells,
        row: Option<&Cells>,
        conditions: &[(u16, Option<&[u8]>)],
    ) -> Request<'t> {
        let columns = if row.is_some() {
            self.table.regular()
        } else {
            self.table.statics()
        };
        let mut request = self.update(None, None);
        let carrier = &columns[usize::from(conditions[0].0)];
        request.push(" SET ");
        request.push_name(&carrier.name);
        request.push(" = ?");
        request.bind_unset(&carrier.ty);
        self.push_where_partition(&mut request, partition);
        if let Some(row) = row {
            self.push_relation(&mut request, 0, "=", row);
        }
        for (index, (column, expected)) in conditions.iter().enumerate() {
            let column = &columns[usize::from(*column)];
            request.push(if index == 0 { " IF " } else { " AND " });
            request.push_name(&column.name);
            request.push(" = ?");
            request.bind(&column.ty, *expected);
        }
        request
    }

    fn update(self, stamp: Option<i64>, ttl_seconds: Option<u32>) -> Request<'t> {
        let mut request = Request::new("UPDATE ".to_owned());
        request.push(&table_name(self.keyspace, self.table.name()));
        push_using(&mut request, stamp, ttl_seconds);
        request
    }

    fn select_columns(self, selected: Selected) -> Request<'t> {
        let mut text = String::with_capacity(SELECT_CHARS);
        text.push_str("SELECT ");
        let mut request = Request::new(text);
        for (index, column) in self.table.columns().iter().enumerate() {
            if selected.has(self.table, index) {
                request.push(if request.result_types.is_empty() { "" } else { ", " });
                request.push_name(&column.name);
                request.expect_columns(self.table, std::slice::from_ref(column));
            }
        }
        if selected.stamps {
            self.push_lives(&mut request);
        }
        request.push(" FROM ");
        request.push(&table_name(self.keyspace, self.table.name()));
        request
    }

    fn push_lives(self, request: &mut Request<'t>) {
        for column in self.table.regular() {
            for (function, ty) in [("WRITETIME", &BIGINT), ("TTL", &INT)] {
                request.push(", ");
                request.push(function);
                request.push("(");
                request.push_name(&column.name);
                request.push(")");
                request.result_types.push(ty);
            }
        }
    }

    fn token(self) -> String {
        let mut request = Request::new("token(".to_owned());
        push_columns(&mut request, self.table.partition());
        request.push(")");
        request.text
    }

    fn bind_partition(self, request: &mut Request<'t>, partition: &Cells) {
        for (column, cell) in self.table.partition().iter().zip(partition.iter()) {
            match cell {
                Some(cell) if is_escaped(self.table) => request.bind(&column.ty, Some(&escaped(cell))),
                cell => request.bind(&column.ty, cell),
            }
        }
    }

    fn push_where_partition(self, request: &mut Request<'t>, partition: &Cells) {
        for (index, column) in self.table.partition().iter().enumerate() {
            request.push(if index == 0 { " WHERE " } else { " AND " });
            request.push_name(&column.name);
            request.push(" = ?");
        }
        self.bind_partition(request, partition);
    }

    fn push_where_piece(self, request: &mut Request<'t>, partition: &Cells, piece: &Piece) {
        self.push_where_partition(request, partition);
        let start = piece.pinned.len();
        if start > 0 {
            self.push_relation(request, 0, "=", &piece.pinned);
        }
        let operator = |bound: &TupleBound, open: &'static str, closed: &'static str| {
            if bound.inclusive { closed } else { open }
        };
        if let Some(lower) = &piece.lower {
            self.push_relation(request, start, operator(lower, ">", ">="), &lower.cells);
        }
        if let Some(upper) = &piece.upper {
            self.push_relation(request, start, operator(upper, "<", "<="), &upper.cells);
        }
    }

    /// `AND ("a", "b") > (?, ?)` over the clustering columns from `start` on. Tuples throughout:
    /// `ScyllaDB` rejects tuple and single-column relations mixed on clustering columns. Nothing
    /// where there are no cells: a table without clustering columns has one row per partition.
    fn push_relation(self, request: &mut Request<'t>, start: usize, operator: &str, cells: &Cells) {
        if cells.is_empty() {
            return;
        }
        let columns = &self.table.clustering()[start..start + cells.len()];
        request.push(" AND (");
        push_columns(request, columns);
        request.push(") ");
        request.push(operator);
        request.push(" (?");
        for _ in 1..cells.len() {
            request.push(", ?");
        }
        request.push(")");
        for (column, cell) in columns.iter().zip(cells.iter()) {
            request.bind(&column.ty, cell);
        }
    }

    fn push_reversed_order(self, request: &mut Request<'t>) {
        for (index, column) in self.table.clustering().iter().enumerate() {
            request.push(if index == 0 { " ORDER BY " } else { ", " });
            request.push_name(&column.name);
            request.push(match self.table.clustering_direction(index) {
                Direction::Ascending => " DESC",
                Direction::Descending => " ASC",
            });
        }
    }
}

/// What an insert sets.
pub(crate) struct Insert<'a> {
    pub(crate) clustering: &'a Cells,
    pub(crate) columns: RegularColumns<'a>,
    pub(crate) cells: &'a Cells,
    /// Whether a null removes what is there.
    pub(crate) nulls: bool,
    pub(crate) stamp: Option<i64>,
    pub(crate) ttl_seconds: Option<u32>,
}

/// Which regular columns an insert names.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RegularColumns<'a> {
    /// The first so many: all of them.
    All(u16),
    /// These.
    Some(&'a [u16]),
}

impl RegularColumns<'_> {
    fn len(self) -> usize {
        match self {
            Self::All(count) => usize::from(count),
            Self::Some(columns) => columns.len(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        (0..self.len()).map(|index| match self {
            Self::All(_) => index as u16,
            Self::Some(columns) => columns[index],
        })
    }
}

fn push_columns(request: &mut Request<'_>, columns: &[Column]) {
    for (index, column) in columns.iter().enumerate() {
        if index > 0 {
            request.push(", ");
        }
        request.push_name(&column.name);
    }
}

fn push_using(request: &mut Request<'_>, stamp: Option<i64>, ttl_seconds: Option<u32>) {
    let mut word = " USING ";
    if let Some(stamp) = stamp {
        request.push(word);
        request.push("TIMESTAMP ?");
        request.bind_bigint(stamp);
        word = " AND ";
    }
    if let Some(seconds) = ttl_seconds {
        request.push(word);
        request.push("TTL ?");
        request.bind_int(i32::try_from(seconds).unwrap_or(i32::MAX));
    }
}
