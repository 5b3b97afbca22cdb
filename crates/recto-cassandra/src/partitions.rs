//! Scan of a table's partitions in Cassandra's token order. It reads at most one row of each
//! partition.

use std::sync::Arc;

use recto_model::{Cells, RowRef, RowSet, Table};
use recto_store::{ColumnSet, ReadOptions, ScanPosition, ScanRead, StoreError, StoreErrorKind, TokenRange};
use scylla::response::PagingState;

use crate::client::{Call, Client, Settings};
use crate::cql::Statements;
use crate::position::{Position, decode_position, encode_position, token_of};
use crate::read::rows_of;
use crate::rows::{AnswerRow, each_row};

/// Maximum number of partitions with the same token that a scan reads. Two keys with the same
/// 64-bit token are a coincidence; many such keys are an attack on the hash.
const MAX_PARTITIONS_PER_TOKEN: i32 = 1_024;

/// Partition that a scan has read: its key and its static cells.
pub(crate) struct Partition {
    pub(crate) key: Cells,
    statics: Cells,
    /// True if the scan returns the partition. In a table of another program, the scan skips
    /// partitions that have only static cells.
    is_listed: bool,
}

impl Partition {
    /// Reads the partition from one row of the result. The row contains the key, the static cells
    /// and, for a table of another program, the column that shows whether the partition has a row.
    fn read(statements: Statements<'_>, table: &Table, row: &AnswerRow<'_>) -> Self {
        let keys = table.partition().len();
        let width = keys + table.statics().len();
        let cells = |columns: std::ops::Range<usize>| columns.map(|column| row.get(column)).collect();
        Self {
            key: cells(0..keys),
            statics: cells(keys..width),
            is_listed: statements.row_column().is_none() || row.get(width).is_some(),
        }
    }
}

/// Returns the partitions that have the same token as `position` and follow it in Cassandra's
/// order, so that a scan can continue after `position`. Leaves out partitions whose key has an
/// empty cell in a column of `leaves_out`.
pub(crate) async fn following(
    client: &Client,
    table: &Table,
    settings: &Settings,
    position: &Position,
    leaves_out: ColumnSet,
) -> Result<Vec<Partition>, StoreError> {
    let statements = Statements::new(&client.config.keyspace, table);
    let request = statements
        .select_partitions_of_token(position.token, MAX_PARTITIONS_PER_TOKEN)
        .leaving_out(leaves_out, table);
    let prepared = client.prepare(&request, &settings.deadline).await?;
    let call = Call::Statement(&prepared, &request.values);
    let answer = client
        .send(call, settings)
        .await
        .map_err(|failure| failure.error)?;
    let done = serialized_key(position.partition.as_row());
    let mut following = Vec::new();
    each_row(&rows_of(answer)?, &request, |row| {
        let partition = Partition::read(statements, table, row);
        // Cassandra orders partitions with the same token by the bytes of their keys, so only
        // larger keys follow the position.
        if serialized_key(partition.key.as_row()) > done {
            following.push(partition);
        }
        Ok(())
    })?;
    Ok(following)
}

/// Returns at most `limit` partitions of a token range, from its start or after a position where an
/// earlier scan stopped.
pub(crate) async fn scan(
    client: &Client,
    table: &Arc<Table>,
    range: &TokenRange,
    after: Option<&ScanPosition>,
    limit: u32,
    options: &ReadOptions,
) -> Result<ScanRead, StoreError> {
    if limit == 0 {
        let message = "the limit of a scan of partitions must not be 0";
        return Err(StoreError::new(StoreErrorKind::Invalid, message));
    }
    let mut listing = Listing {
        client,
        table,
        settings: client.settings(options.consistency, options.timeout),
        limit: limit as usize,
        max_bytes: options.max_bytes,
        rows: RowSet::new(table.partition().len() + table.statics().len()),
        seen: 0,
        last: None,
    };
    listing.settings.deadline.remaining()?;
    let mut start = token_of(&range.start)?;
    let end = token_of(&range.end)?;
    if let Some(after) = after {
        let after = decode_position(table, &after.0)?;
        start = Some(after.token);
        let following = following(client, table, &listing.settings, &after, ColumnSet::new());
        for partition in following.await? {
            listing.push(after.token, partition);
        }
    }
    if !listing.is_full() {
        listing.tokens(start, end).await?;
    }
    let next = if listing.is_full() { listing.last } else { None };
    Ok(ScanRead {
        bytes: listing.rows.byte_len() as u64,
        rows: listing.rows,
        stamps: Vec::new(),
        ends_in_seconds: Vec::new(),
        next: next.as_ref().map(encode_position),
    })
}

struct Listing<'a> {
    client: &'a Client,
    table: &'a Table,
    settings: Settings,
    limit: usize,
    max_bytes: u64,
    rows: RowSet,
    /// Number of partitions that were read so far. `last` is the position of the last one.
    seen: usize,
    last: Option<Position>,
}

impl Listing<'_> {
    fn is_full(&self) -> bool {
        let rows = &self.rows;
        self.seen >= self.limit || (!rows.is_empty() && rows.byte_len() as u64 >= self.max_bytes)
    }

    fn push(&mut self, token: i64, partition: Partition) {
        if self.is_full() {
            return;
        }
        if partition.is_listed {
            let cells: Cells = partition.key.iter().chain(partition.statics.iter()).collect();
            self.rows.push_row(cells.as_row());
        }
        self.seen += 1;
        self.last = Some(Position {
            token,
            partition: partition.key,
            clustering: Cells::new(),
        });
    }

    /// Reads the partitions whose tokens are greater than `after` and at most `up_to`.
    async fn tokens(&mut self, after: Option<i64>, up_to: Option<i64>) -> Result<(), StoreError> {
        let (client, table) = (self.client, self.table);
        let wanted = i32::try_from(self.limit - self.seen).unwrap_or(i32::MAX);
        let statements = Statements::new(&client.config.keyspace, table);
        let request = statements.select_partitions((after, up_to), wanted);
        let token_column = request.result_types.len() - 1;
        let prepared = client.prepare(&request, &self.settings.deadline).await?;
        let mut from = PagingState::start();
        let mut most = prepared.page_rows(self.max_bytes, wanted.unsigned_abs());
        loop {
            let answer = client
                .page(&prepared, &request.values, &mut most, &from, &self.settings)
                .await?;
            let more = answer.more.clone();
            let before = (self.seen, self.rows.byte_len());
            each_row(&rows_of(answer)?, &request, |row| {
                let token = row.get(token_column).map_or(Ok(None), token_of)?;
                let partition = Partition::read(statements, table, row);
                self.push(token.unwrap_or_default(), partition);
                Ok(())
            })?;
            prepared.note_rows(
                (self.seen - before.0) as u64,
                (self.rows.byte_len() - before.1) as u64,
            );
            match more {
                Some(state) if !self.is_full() => from = state,
                _ => return Ok(()),
            }
        }
    }
}

/// Returns the bytes by which Cassandra orders partitions with the same token. For a key of one
/// column, they are its bytes. For other keys, each part has its length before it and a zero byte
/// after it.
fn serialized_key(partition: RowRef<'_>) -> Vec<u8> {
    let mut key = Vec::with_capacity(partition.byte_len() + 3 * partition.len());
    for cell in partition.iter() {
        let cell = cell.unwrap_or_default();
        if partition.len() == 1 {
            return cell.to_vec();
        }
        key.extend_from_slice(&(cell.len() as u16).to_be_bytes());
        key.extend_from_slice(cell);
        key.push(0);
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn composite_keys_are_ordered_as_cassandra_serializes_them() {
        let key = |cells: &[&[u8]]| {
            serialized_key(cells.iter().map(|cell| Some(*cell)).collect::<Cells>().as_row())
        };
        assert_eq!(key(&[b"ab"]), b"ab");
        assert_eq!(key(&[b"ab", b""]), [0, 2, b'a', b'b', 0, 0, 0, 0]);
    }
}
