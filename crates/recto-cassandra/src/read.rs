//! Reads of slices, rows and static cells.

use std::sync::Arc;

use async_trait::async_trait;
use recto_model::table::ReadDirection;
use recto_model::{Cells, RowSet, Slice, Table};
use recto_store::{
    PointRead, ReadOptions, RowsRead, ScanPosition, ScanRead, Snapshot, StoreError, TokenRange,
};
use scylla::response::PagingState;

use crate::client::{Answer, Call, Client, Settings};
use crate::cql::{Reading, Request, Selected, Statements};
use crate::partitions;
use crate::pieces::{Piece, pieces};
use crate::points;
use crate::rows::{CellFrom, each_row};
use crate::scan;
use crate::values::ReadValuesError;

/// Snapshot of a Cassandra store. Each read returns the current state of the replicas, so two reads
/// may see different states.
pub(crate) struct CassandraSnapshot {
    pub(crate) client: Arc<Client>,
}

#[async_trait]
impl Snapshot for CassandraSnapshot {
    async fn slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        self.client.limits.check_slice(slice)?;
        let settings = self.client.settings(options.consistency, options.timeout);
        let mut rows = Rows::in_partition(&slice.table, &slice.partition, options, slice.limit);
        // Check the deadline here, because an empty slice sends no request that would check it.
        settings.deadline.remaining()?;
        for request in slice_requests(&self.client.config.keyspace, slice, rows.selected) {
            rows.read(&self.client, request.limited(rows.wanted()), &settings)
                .await?;
            if rows.full() {
                return Ok(rows.finish(false));
            }
        }
        Ok(rows.finish(true))
    }

    async fn get(&self, read: &PointRead, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        self.client.limits.check_point(read)?;
        let settings = self.client.settings(options.consistency, options.timeout);
        let piece = Piece {
            pinned: read.clustering.clone(),
            lower: None,
            upper: None,
        };
        let mut rows = Rows::in_partition(&read.table, &read.partition, options, 1);
        let request = Statements::new(&self.client.config.keyspace, &read.table).select_piece(
            &read.partition,
            &piece,
            Reading::Clustering,
            1,
            rows.selected,
        );
        rows.read(&self.client, request, &settings).await?;
        Ok(rows.finish(true))
    }

    async fn get_many(
        &self,
        reads: &[PointRead],
        options: &ReadOptions,
    ) -> Result<Vec<RowsRead>, StoreError> {
        points::get_many(self, reads, options).await
    }

    async fn get_statics(
        &self,
        table: &Arc<Table>,
        partition: &Cells,
        options: &ReadOptions,
    ) -> Result<RowsRead, StoreError> {
        self.client.limits.check_partition(table, partition)?;
        let settings = self.client.settings(options.consistency, options.timeout);
        let mut read = RowsRead {
            rows: RowSet::new(table.statics().len()),
            exhausted: true,
            ..RowsRead::default()
        };
        if table.statics().is_empty() {
            return Ok(read);
        }
        let request = Statements::new(&self.client.config.keyspace, table).select_statics(partition);
        let prepared = self.client.prepare(&request, &settings.deadline).await?;
        let call = Call::Statement(&prepared, &request.values);
        let answer = self
            .client
            .send(call, &settings)
            .await
            .map_err(|failure| failure.error.with_table(table.name()))?;
        read.round_trips = answer.attempts;
        read.statements = answer.attempts;
        read.tombstones = answer.tombstones;
        each_row(&rows_of(answer)?, &request, |row| {
            if row.iter().any(|cell| cell.is_some()) {
                row.push_to(&mut read.rows, table.statics().len());
            }
            Ok(())
        })?;
        read.bytes = read.rows.byte_len() as u64;
        Ok(read)
    }

    async fn token_ranges(&self, table: &Arc<Table>, pieces: u32) -> Result<Vec<TokenRange>, StoreError> {
        let _ = table;
        Ok(scan::token_ranges(pieces))
    }

    async fn scan(
        &self,
        table: &Arc<Table>,
        range: &TokenRange,
        after: Option<&ScanPosition>,
        limit: u32,
        options: &ReadOptions,
    ) -> Result<ScanRead, StoreError> {
        scan::scan(&self.client, table, range, after, limit, options)
            .await
            .map_err(|error| error.with_table(table.name()))
    }

    async fn scan_partitions(
        &self,
        table: &Arc<Table>,
        range: &TokenRange,
        after: Option<&ScanPosition>,
        limit: u32,
        options: &ReadOptions,
    ) -> Result<ScanRead, StoreError> {
        partitions::scan(&self.client, table, range, after, limit, options)
            .await
            .map_err(|error| error.with_table(table.name()))
    }
}

/// Returns the statements that read `slice`, in reading order.
pub(crate) fn slice_requests<'t>(
    keyspace: &'t str,
    slice: &'t Slice,
    selected: Selected,
) -> Vec<Request<'t>> {
    let mut pieces = pieces(&slice.table, &slice.from, &slice.to);
    let reading = match slice.direction {
        ReadDirection::Forward => Reading::Clustering,
        ReadDirection::Backward => {
            pieces.reverse();
            Reading::Reversed
        }
    };
    let statements = Statements::new(keyspace, &slice.table);
    pieces
        .iter()
        .map(|piece| {
            let limit = i32::try_from(slice.limit).unwrap_or(i32::MAX);
            statements.select_piece(&slice.partition, piece, reading, limit, selected)
        })
        .collect()
}

/// Result of a read, which collects rows up to a maximum number of rows and of bytes.
pub(crate) struct Rows<'a> {
    pub(crate) read: RowsRead,
    table: &'a Table,
    pub(crate) selected: Selected,
    /// For each column of the table: the source of its cell in a result row.
    cells: Vec<CellFrom>,
    /// Size of the cells that all rows share (the partition key that the caller knows), in bytes.
    /// The buffer holds these cells once, but they count in every row.
    known_bytes: u64,
    limit: u32,
    max_bytes: u64,
}

impl<'a> Rows<'a> {
    /// Returns an empty result of a read of rows of any partitions.
    pub(crate) fn new(table: &'a Table, options: &ReadOptions, limit: u32) -> Self {
        Self::of(table, None, Selected::by(options), (options, limit))
    }

    /// Returns an empty result of a read of rows of one partition, whose key is known.
    pub(crate) fn in_partition(
        table: &'a Table,
        partition: &Cells,
        options: &ReadOptions,
        limit: u32,
    ) -> Self {
        let selected = Selected::in_partition(table, options);
        Self::of(table, Some(partition), selected, (options, limit))
    }

    /// Creates an empty result. Stores the cells of the known partition key once in the buffer, for
    /// all rows.
    fn of(
        table: &'a Table,
        partition: Option<&Cells>,
        selected: Selected,
        (options, limit): (&ReadOptions, u32),
    ) -> Self {
        let mut rows = RowSet::new(table.columns().len());
        let mut cell = |column| {
            if selected.has(table, column) {
                return CellFrom::Answer;
            }
            let known = partition.filter(|partition| column < partition.len());
            match known.and_then(|partition| partition.get(column)) {
                Some(bytes) => CellFrom::Buffer {
                    start: rows.push_bytes(bytes),
                    length: bytes.len(),
                },
                None => CellFrom::Nowhere,
            }
        };
        let cells = (0..table.columns().len()).map(&mut cell).collect();
        let known_bytes = rows.byte_len() as u64;
        Self {
            read: RowsRead {
                rows,
                ..RowsRead::default()
            },
            table,
            selected,
            cells,
            known_bytes,
            limit,
            max_bytes: options.max_bytes,
        }
    }

    /// Returns the number of rows that the read may still collect.
    pub(crate) fn wanted(&self) -> u32 {
        self.limit - self.read.rows.len() as u32
    }

    /// Returns the number of bytes that the read may still collect.
    pub(crate) fn wanted_bytes(&self) -> u64 {
        self.max_bytes.saturating_sub(self.bytes())
    }

    /// Returns the size of the collected rows, in bytes.
    fn bytes(&self) -> u64 {
        let told = self.read.rows.byte_len() as u64 - self.known_bytes;
        told + self.known_bytes * self.read.rows.len() as u64
    }

    /// Returns whether the read has reached its limit of rows or of bytes.
    pub(crate) fn full(&self) -> bool {
        self.wanted() == 0 || (self.wanted_bytes() == 0 && !self.read.rows.is_empty())
    }

    /// Appends the rows of one statement until the read reaches a limit. The number of bytes that
    /// may still be read determines the size of the protocol pages. Different pages see the
    /// partition at different moments, as several statements would.
    pub(crate) async fn read(
        &mut self,
        client: &Client,
        request: Request<'_>,
        settings: &Settings,
    ) -> Result<(), StoreError> {
        let table = self.table;
        self.read_pages(client, request, settings)
            .await
            .map_err(|error| error.with_table(table.name()))
    }

    async fn read_pages(
        &mut self,
        client: &Client,
        request: Request<'_>,
        settings: &Settings,
    ) -> Result<(), StoreError> {
        let prepared = client.prepare(&request, &settings.deadline).await?;
        let mut from = PagingState::start();
        let mut most = i32::MAX;
        loop {
            most = most.min(prepared.page_rows(self.wanted_bytes(), self.wanted()));
            let answer = client
                .page(&prepared, &request.values, &mut most, &from, settings)
                .await?;
            self.note(&answer);
            let more = answer.more.clone();
            let before = (self.read.rows.len(), self.read.rows.byte_len());
            self.append(answer, &request)?;
            prepared.note_rows(
                (self.read.rows.len() - before.0) as u64,
                (self.read.rows.byte_len() - before.1) as u64,
            );
            match more {
                Some(state) if !self.full() => from = state,
                _ => return Ok(()),
            }
        }
    }

    pub(crate) fn note(&mut self, answer: &Answer) {
        self.read.round_trips += answer.attempts;
        self.read.statements += answer.attempts;
        self.read.tombstones += answer.tombstones;
    }

    fn append(&mut self, answer: Answer, request: &Request<'_>) -> Result<(), StoreError> {
        let answered = self
            .cells
            .iter()
            .filter(|cell| **cell == CellFrom::Answer)
            .count();
        let first_clustering = if self.selected.partition {
            self.table.partition().len()
        } else {
            0
        };
        let has_clustering = !self.table.clustering().is_empty();
        let result = rows_of(answer)?;
        let bytes = (result.rows_bytes_size() as u64).min(self.wanted_bytes());
        let rows = result.rows_num().min(self.wanted() as usize);
        self.read.rows.reserve(rows, bytes as usize);
        each_row(&result, request, |row| {
            // Skip the row that represents a partition with static cells and no rows: Cassandra
            // returns it without a clustering key.
            let is_row = !has_clustering || row.get(first_clustering).is_some();
            if is_row && !self.full() {
                row.push_among(&mut self.read.rows, answered, self.cells.iter().copied());
                if self.selected.stamps {
                    let (stamp, ends_in_seconds) = life(row.iter().skip(answered));
                    self.read.stamps.push(stamp);
                    self.read.ends_in_seconds.push(ends_in_seconds);
                }
            }
            Ok(())
        })
    }

    pub(crate) fn finish(mut self, exhausted: bool) -> RowsRead {
        self.read.exhausted = exhausted;
        self.read.bytes = self.bytes();
        self.read
    }
}

/// Returns the undecoded rows of a response. Fails if the driver cannot decode the frame.
pub(crate) fn rows_of(answer: Answer) -> Result<scylla::response::query_result::QueryRowsResult, StoreError> {
    answer
        .result
        .into_rows_result()
        .map_err(|error| ReadValuesError::frame(error).into())
}

/// Returns the newest write timestamp of a row, and the seconds until all its cells have expired
/// (`None` if a cell does not expire). The timestamp is 0 if all cells are null. `pairs` has the
/// write timestamp of each cell, then its TTL, which is null if the cell does not expire.
pub(crate) fn life<'a>(pairs: impl IntoIterator<Item = Option<&'a [u8]>>) -> (i64, Option<u32>) {
    let (mut pairs, mut newest, mut ends) = (pairs.into_iter(), None, Some(0));
    while let (Some(stamp), Some(ttl)) = (pairs.next(), pairs.next()) {
        let Some(stamp) = stamp.and_then(|bytes| bytes.try_into().ok()) else {
            continue;
        };
        newest = newest.max(Some(i64::from_be_bytes(stamp)));
        let ttl = ttl
            .and_then(|bytes| bytes.try_into().ok())
            .map(u32::from_be_bytes);
        ends = ends.zip(ttl).map(|(one, other)| one.max(other));
    }
    (newest.unwrap_or(0), ends.filter(|_| newest.is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_life_of_a_row_is_of_cells_that_are_not_null() {
        let stamps = [5_i64, 7].map(i64::to_be_bytes);
        let ttl = 9_u32.to_be_bytes();
        let longer = 12_u32.to_be_bytes();
        let pairs = [
            Some(&stamps[0][..]),
            Some(&ttl[..]),
            None,
            None,
            Some(&stamps[1]),
            Some(&longer),
        ];
        assert_eq!(life(pairs), (7, Some(12)));
        assert_eq!(
            life([Some(&stamps[0][..]), Some(&ttl[..]), Some(&stamps[1]), None]),
            (7, None)
        );
        assert_eq!(life([None, None]), (0, None));
    }
}
