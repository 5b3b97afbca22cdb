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
use crate::values::{Values, tuple};

/// Type of a bind marker for `LIMIT` or `TTL`, or of a result column with a TTL.
static INT: Type = Type::Int;
/// Type of a bind marker or result column that holds a write timestamp or a token.
static BIGINT: Type = Type::BigInt;

/// Initial capacity for the text of a `SELECT` statement, in bytes; sufficient for most.
const SELECT_CHARS: usize = 512;

/// Meaning of a cell of zero bytes in a table that another program created.
///
/// Cassandra accepts such cells for every type: `blobAsInt(0x)` and old Thrift clients write them.
/// Cassandra's drivers show them as null.
#[derive(Debug, Clone, Copy)]
pub(crate) enum EmptyCell<'t> {
    /// The cell is a value of the type, such as an empty text.
    Value,
    Null,
    /// The cell is in this key column, of a type without an empty value. Cassandra sorts it before
    /// all values of the type. Recto cannot express it, so a read of its row fails.
    Unordered(&'t Column),
    /// The cell is in a key column of a type without an empty value, and the read omits its row.
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

/// Statement: its text, the types and values of its bind markers, and the types of its result columns.
#[derive(Debug, Clone)]
pub(crate) struct Request<'t> {
    pub(crate) text: String,
    pub(crate) marker_types: Vec<Cow<'t, Type>>,
    pub(crate) values: Values,
    pub(crate) result_types: Vec<&'t Type>,
    /// Meaning of an empty cell in each of the first result columns. For a table of another
    /// program, it has one entry for each column. For a table of Recto, it is empty.
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

    /// Appends `columns` to the columns that the result must have.
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

    /// Adds a bind marker with an explicit type. The driver prepares a statement again if Cassandra
    /// has evicted it. If the type of the column has changed in the meantime, Cassandra then
    /// rejects the statement, and no wrong bytes are written.
    fn push_typed_marker(&mut self, ty: &Type) {
        self.text.push('(');
        push_type(&mut self.text, ty);
        self.text.push_str(")?");
    }

    fn push_name(&mut self, name: &str) {
        push_quoted(&mut self.text, name);
    }

    /// Returns the request with another limit, which is the last value of every `SELECT` statement
    /// that has a limit.
    pub(crate) fn limited(mut self, limit: u32) -> Self {
        self.values.pop();
        self.values.push_int(i32::try_from(limit).unwrap_or(i32::MAX));
        self
    }

    /// Omits rows with an empty cell in one of the key columns `columns` from the result.
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

    /// Returns the text with the values in place of the bind markers, so that a person can read it
    /// or paste it into cqlsh.
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

/// Returns `name` as a quoted identifier.
pub(crate) fn quoted(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 2);
    push_quoted(&mut text, name);
    text
}

/// Returns `text` as a string literal.
pub(crate) fn string_literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Returns the name of a table without its keyspace. Only the name of a table of another program
/// starts with its keyspace.
pub(crate) fn name_in_keyspace(table: &str) -> &str {
    table.split_once('.').map_or(table, |(_, name)| name)
}

/// Returns the quoted name of a table with its keyspace: `"keyspace"."table"`.
pub(crate) fn table_name(keyspace: &str, table: &str) -> String {
    let table = name_in_keyspace(table);
    let mut text = String::with_capacity(keyspace.len() + table.len() + "\"\".\"\"".len());
    push_quoted(&mut text, keyspace);
    text.push('.');
    push_quoted(&mut text, table);
    text
}

/// Generator of the CQL statements that read and write one table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Statements<'t> {
    keyspace: &'t str,
    table: &'t Table,
}

/// Columns of a row that a statement selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Selected {
    /// True to select the partition columns.
    pub(crate) partition: bool,
    /// Columns after the key to omit. Selecting a static column makes Cassandra read the beginning of the
    /// partition.
    pub(crate) unseen: ColumnSet,
    /// True to select the write timestamps and TTLs of the regular columns, in pairs after all
    /// columns.
    pub(crate) stamps: bool,
}

impl Selected {
    /// Returns the selection for rows of any partitions; it includes the partition columns.
    pub(crate) fn by(options: &ReadOptions) -> Self {
        Self {
            partition: true,
            unseen: options.unseen,
            stamps: options.stamps,
        }
    }

    /// Returns the selection for rows of one partition, whose key the caller knows. The selection
    /// includes the key only in two cases:
    ///
    /// - A table without clustering columns, because the key may be the only content of a row.
    /// - A table of another program, because the types of the result's columns show whether the
    ///   table was created again with other types.
    pub(crate) fn in_partition(table: &Table, options: &ReadOptions) -> Self {
        Self {
            partition: table.clustering().is_empty() || AttachedTable::keyspace_of(table.name()).is_some(),
            ..Self::by(options)
        }
    }

    /// Returns whether the selection contains a column of the table.
    pub(crate) fn has(self, table: &Table, column: usize) -> bool {
        let key_len = table.key_len();
        match column {
            column if column < table.partition().len() => self.partition,
            column => column < key_len || !self.unseen.contains(column - key_len),
        }
    }
}

/// Order in which a statement reads a partition: clustering order, or its reverse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    Clustering,
    Reversed,
}

impl<'t> Statements<'t> {
    pub(crate) fn new(keyspace: &'t str, table: &'t Table) -> Self {
        Self { keyspace, table }
    }

    /// Selects the rows of one key range (piece) of a partition.
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

    /// Selects the rows of these keys, in any order. If `partition` is given, `keys` are clustering
    /// keys in it. Otherwise they are partition keys of one column, of partitions with one row
    /// each. The limit makes Cassandra read the partitions concurrently; without a limit Cassandra
    /// reads one partition after the other.
    pub(crate) fn select_keys(
        self,
        partition: Option<&Cells>,
        keys: &[&Cells],
        selected: Selected,
    ) -> Request<'t> {
        let mut request = self.select_columns(selected);
        let columns = if let Some(partition) = partition {
            self.push_where_partition(&mut request, partition);
            request.push(" AND ");
            self.table.clustering()
        } else {
            request.push(" WHERE ");
            self.table.partition()
        };
        if let [column] = columns {
            request.push_name(&column.name);
            let list = Type::List(Box::new(column.ty.clone()));
            request.marker_types.push(Cow::Owned(list));
            let keys = keys.iter().map(|key| key.get(0).unwrap_or_default());
            if partition.is_none() && is_escaped(self.table) {
                let keys: Vec<_> = keys.map(escaped).collect();
                request.values.push_list(keys.iter().map(|key| &**key));
            } else {
                request.values.push_list(keys);
            }
        } else {
            request.push("(");
            push_columns(&mut request, columns);
            request.push(")");
            let types = columns.iter().map(|column| column.ty.clone());
            let list = Type::List(Box::new(Type::Tuple(types.collect())));
            request.marker_types.push(Cow::Owned(list));
            let keys: Vec<Vec<u8>> = keys.iter().map(|key| tuple(key)).collect();
            request.values.push_list(keys.iter().map(Vec::as_slice));
        }
        request.push(" IN ? LIMIT ?");
        request.bind_int(i32::try_from(keys.len()).unwrap_or(i32::MAX));
        request
    }

    /// Selects the rows whose partition tokens are greater than `after` and at most `up_to`. Each
    /// row is followed by its token and, with `stamps`, by the write timestamps and TTLs of its
    /// regular columns, in pairs.
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

    /// Selects the partitions whose tokens are greater than `after` and at most `up_to`. Each
    /// result has the key, the static columns, the [column that says whether the partition has a
    /// row](Self::row_column), and the token.
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

    /// Selects the partitions of one token, in the store's order. Each result has the key, the static
    /// columns, and the [column that says whether the partition has a row](Self::row_column).
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

    /// Returns the column that shows whether a partition of a table of another program has a row.
    /// The column is null in the only result of a partition that has only static cells. Returns
    /// `None` for tables of Recto. The column is needed because Recto's description of such a table
    /// does not say which columns are static.
    pub(crate) fn row_column(self) -> Option<&'t Column> {
        AttachedTable::keyspace_of(self.table.name())?;
        self.table.clustering().first()
    }

    /// Begins a statement that selects the key and the static columns of each partition, and the
    /// column that says whether the partition has a row.
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

    /// Limits the result to one row of each partition and to `limit` partitions. Reading one row of
    /// each costs as much as selecting distinct keys.
    fn push_partition_limit(self, request: &mut Request<'_>, limit: i32) {
        if self.row_column().is_some() {
            request.push(" PER PARTITION LIMIT 1");
        }
        request.push(" LIMIT ?");
        request.bind_int(limit);
    }

    /// Adds the condition that partition tokens are greater than `after` and at most `up_to`.
    /// `None`: no bound.
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

    /// Selects the static columns of a partition.
    pub(crate) fn select_statics(self, partition: &Cells) -> Request<'t> {
        let mut request = Request::new("SELECT DISTINCT ".to_owned());
        push_columns(&mut request, self.table.statics());
        request.push(" FROM ");
        request.push(&table_name(self.keyspace, self.table.name()));
        request.expect_columns(self.table, self.table.statics());
        self.push_where_partition(&mut request, partition);
        request
    }

    /// Sets the given regular columns of a row, and creates the row if it does not exist. A `None`
    /// in `cells` writes null if `nulls` is true. Otherwise the column keeps its value.
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

    /// Sets the static columns `columns` (indexes) of a partition to `cells`.
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

    /// Deletes the row with this clustering key.
    pub(crate) fn delete_row(self, partition: &Cells, clustering: &Cells, stamp: Option<i64>) -> Request<'t> {
        let piece = Piece {
            pinned: clustering.clone(),
            lower: None,
            upper: None,
        };
        self.delete_piece(partition, &piece, stamp)
    }

    /// Deletes the rows of one range. If the range has no bounds, deletes the partition.
    pub(crate) fn delete_piece(self, partition: &Cells, piece: &Piece, stamp: Option<i64>) -> Request<'t> {
        let mut request = Request::new("DELETE FROM ".to_owned());
        request.push(&table_name(self.keyspace, self.table.name()));
        push_using(&mut request, stamp, None);
        self.push_where_piece(&mut request, partition, piece);
        request
    }

    /// Returns a statement that changes nothing, because it leaves a column unset (which is not
    /// null). In a batch, it adds conditions on the static columns (if `row` is `None`) or on one
    /// row.
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

    /// Appends a comparison of the clustering columns from `start` on, such as `AND ("a", "b") >
    /// (?, ?)`. It always uses tuples, because `ScyllaDB` rejects tuple relations together with
    /// single-column relations on clustering columns. Appends nothing if `cells` is empty: a table
    /// without clustering columns has one row per partition.
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

/// Values and options of an `INSERT` statement for one row.
pub(crate) struct Insert<'a> {
    pub(crate) clustering: &'a Cells,
    pub(crate) columns: RegularColumns<'a>,
    pub(crate) cells: &'a Cells,
    /// True if a null deletes the existing value. False: a null keeps it.
    pub(crate) nulls: bool,
    pub(crate) stamp: Option<i64>,
    pub(crate) ttl_seconds: Option<u32>,
}

/// Regular columns that an insert names.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RegularColumns<'a> {
    /// All regular columns; the value is the number of these columns.
    All(u16),
    /// Some regular columns, by their indexes among the regular columns.
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
