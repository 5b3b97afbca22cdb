//! Token scans: reads of whole tables in Cassandra's token order, resumable at any row.
//!
//! A position is the key of the last row that a scan read, with the token of its partition. A scan
//! that continues from a position takes up to three steps:
//!
//! 1. the rest of the row's partition, as a slice after the row
//! 2. the following partitions of the same token; two keys rarely share a token
//! 3. the partitions with greater tokens

use std::sync::Arc;

use recto_model::table::ReadDirection;
use recto_model::{Bound, Cells, Slice, Table};
use recto_store::{ColumnSet, ReadOptions, ScanPosition, ScanRead, StoreError, StoreErrorKind, TokenRange};
use scylla::response::PagingState;

use crate::client::{Client, Settings};
use crate::cql::{Selected, Statements};
use crate::partitions::following;
use crate::position::{Position, decode_position, encode_position, token_of};
use crate::read::{life, rows_of, slice_requests};
use crate::rows::{AnswerRow, each_row};

/// Maximum number of token ranges into which a table can be split.
pub const MAX_TOKEN_RANGES: u32 = 65_536;

/// Splits the ring of Murmur3 tokens into `pieces` ranges of equal width. Each range excludes its
/// start and includes its end. Start and end are tokens of 8 bytes, big-endian, or empty for the
/// ends of the ring.
pub(crate) fn token_ranges(pieces: u32) -> Vec<TokenRange> {
    let pieces = pieces.clamp(1, MAX_TOKEN_RANGES);
    let edge = |index: u32| {
        if index == 0 || index == pieces {
            return Vec::new();
        }
        let token = i128::from(i64::MIN) + (i128::from(index) << 64) / i128::from(pieces);
        i64::try_from(token)
            .expect("every token is on the ring")
            .to_be_bytes()
            .to_vec()
    };
    (0..pieces)
        .map(|index| TokenRange {
            start: edge(index),
            end: edge(index + 1),
        })
        .collect()
}

pub(crate) async fn scan(
    client: &Client,
    table: &Arc<Table>,
    range: &TokenRange,
    after: Option<&ScanPosition>,
    limit: u32,
    options: &ReadOptions,
) -> Result<ScanRead, StoreError> {
    if limit == 0 {
        return Err(StoreError::new(
            StoreErrorKind::Invalid,
            "the limit of a scan must not be 0",
        ));
    }
    let mut scan = Scan {
        client,
        table,
        settings: client.settings(options.consistency, options.timeout),
        limit,
        max_bytes: options.max_bytes,
        stamps: options.stamps,
        leaves_out: options.leaves_out_empty,
        read: ScanRead {
            rows: recto_model::RowSet::new(table.columns().len()),
            ..ScanRead::default()
        },
        token: 0,
        is_cut: false,
    };
    scan.settings.deadline.remaining()?;
    let mut start = token_of(&range.start)?;
    let end = token_of(&range.end)?;
    if let Some(position) = after {
        let position = decode_position(table, &position.0)?;
        start = Some(position.token);
        scan.rest_of_partition(&position).await?;
        scan.rest_of_token(&position).await?;
    }
    if !scan.full() {
        scan.tokens(start, end).await?;
    }
    let next = if scan.full() { scan.last() } else { None };
    let mut read = scan.read;
    read.bytes = read.rows.byte_len() as u64;
    read.next = next.as_ref().map(encode_position);
    Ok(read)
}

struct Scan<'a> {
    client: &'a Client,
    table: &'a Arc<Table>,
    settings: Settings,
    limit: u32,
    max_bytes: u64,
    stamps: bool,
    /// Key columns, by index in the key, in which an empty cell causes the scan to omit the row.
    leaves_out: ColumnSet,
    read: ScanRead,
    /// Partition token of the last row that the scan has read.
    token: i64,
    /// True if the scan stops here because the following rows cannot be read. A scan that continues
    /// from here returns the error.
    is_cut: bool,
}

impl Scan<'_> {
    fn full(&self) -> bool {
        let rows = &self.read.rows;
        self.is_cut
            || rows.len() as u64 >= u64::from(self.limit)
            || (!rows.is_empty() && rows.byte_len() as u64 >= self.max_bytes)
    }

    /// Returns the position of the last row that the scan has read, from which a later call
    /// continues.
    fn last(&self) -> Option<Position> {
        let row = self.read.rows.iter().next_back()?;
        let partition_len = self.table.partition().len();
        let cells = |range: std::ops::Range<usize>| range.map(|column| row.get(column));
        let clustering = cells(partition_len..self.table.key_len());
        let is_row = clustering.clone().all(|cell| cell.is_some());
        Some(Position {
            token: self.token,
            partition: cells(0..partition_len).collect(),
            clustering: if is_row {
                clustering.collect()
            } else {
                Cells::new()
            },
        })
    }

    fn wanted(&self) -> u32 {
        self.limit - self.read.rows.len() as u32
    }

    /// Returns the limit of a statement. Cassandra's limit also counts rows that the scan omits. If
    /// the scan omits rows, the statement therefore has no limit, and the scan stops reading pages.
    fn statement_limit(&self) -> u32 {
        if self.leaves_out.is_empty() {
            self.wanted()
        } else {
            i32::MAX.unsigned_abs()
        }
    }

    /// Reads the rows of the partition of `position` that come after `position`.
    async fn rest_of_partition(&mut self, position: &Position) -> Result<(), StoreError> {
        if position.clustering.is_empty() {
            return Ok(());
        }
        self.partition(
            position.token,
            &position.partition,
            Bound::After(position.clustering.clone()),
            true,
        )
        .await
    }

    /// Reads the rows of a partition from `from` on. `begun` is true if the scan has already
    /// returned rows of the partition.
    async fn partition(
        &mut self,
        token: i64,
        partition: &Cells,
        from: Bound,
        begun: bool,
    ) -> Result<(), StoreError> {
        let client = self.client;
        let slice = Slice {
            table: Arc::clone(self.table),
            partition: partition.clone(),
            from,
            to: Bound::end(),
            direction: ReadDirection::Forward,
            limit: self.limit,
        };
        let selected = Selected {
            stamps: self.stamps,
            ..Selected::by(&ReadOptions::default())
        };
        for request in slice_requests(&client.config.keyspace, &slice, selected) {
            if self.full() {
                return Ok(());
            }
            let request = request.limited(self.statement_limit());
            let request = request.leaving_out(self.leaves_out, self.table);
            self.statement(&request, Some(token), begun).await?;
        }
        Ok(())
    }

    /// Reads the partitions after `position` that have the same token as its partition.
    async fn rest_of_token(&mut self, position: &Position) -> Result<(), StoreError> {
        if self.full() {
            return Ok(());
        }
        let following = following(self.client, self.table, &self.settings, position, self.leaves_out);
        for partition in following.await? {
            self.partition(position.token, &partition.key, Bound::start(), false)
                .await?;
        }
        Ok(())
    }

    /// Reads the rows whose tokens are greater than `after` and at most `up_to`.
    async fn tokens(&mut self, after: Option<i64>, up_to: Option<i64>) -> Result<(), StoreError> {
        let limit = i32::try_from(self.statement_limit()).unwrap_or(i32::MAX);
        let request = Statements::new(&self.client.config.keyspace, self.table).select_tokens(
            (after, up_to),
            limit,
            self.stamps,
        );
        let request = request.leaving_out(self.leaves_out, self.table);
        self.statement(&request, None, false).await
    }

    /// Appends the rows of one statement to the result. The partition token of the rows is `token`;
    /// if `token` is `None`, each row has it after its columns. Write timestamps come next, if
    /// requested.
    ///
    /// Cassandra returns a partition with static cells and no rows as one row without a clustering
    /// key. The scan omits this row if `begun` is true, because it has already returned rows of the
    /// partition.
    async fn statement(
        &mut self,
        request: &crate::cql::Request<'_>,
        token: Option<i64>,
        begun: bool,
    ) -> Result<(), StoreError> {
        let client = self.client;
        let prepared = client.prepare(request, &self.settings.deadline).await?;
        let mut from = PagingState::start();
        let mut most = i32::MAX;
        loop {
            let bytes = self.max_bytes.saturating_sub(self.read.rows.byte_len() as u64);
            most = most.min(prepared.page_rows(bytes, self.wanted()));
            let answer = client
                .page(&prepared, &request.values, &mut most, &from, &self.settings)
                .await;
            let answer = match answer {
                // The scan cannot pass a stretch of too many tombstones. Return the rows before it
                // now, so that the next call reports the error.
                Err(error) if error.kind() == StoreErrorKind::Tombstones && !self.read.rows.is_empty() => {
                    self.is_cut = true;
                    return Ok(());
                }
                answer => answer?,
            };
            let more = answer.more.clone();
            let before = (self.read.rows.len(), self.read.rows.byte_len());
            let result = rows_of(answer)?;
            each_row(&result, request, |row| self.append(row, token, begun))?;
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

    fn append(&mut self, row: &AnswerRow<'_>, token: Option<i64>, begun: bool) -> Result<(), StoreError> {
        if self.full() {
            return Ok(());
        }
        let table = self.table;
        let width = table.columns().len();
        let partition_len = table.partition().len();
        let clustering = || (partition_len..table.key_len()).map(|column| row.get(column));
        let is_row = clustering().all(|cell| cell.is_some());
        if !is_row && begun {
            return Ok(());
        }
        self.token = match token {
            Some(token) => token,
            None => row.get(width).map_or(Ok(None), token_of)?.unwrap_or_default(),
        };
        row.push_to(&mut self.read.rows, width);
        if self.stamps {
            let columns = width + usize::from(token.is_none());
            let (stamp, ends_in_seconds) = life(row.iter().skip(columns));
            self.read.stamps.push(stamp);
            self.read.ends_in_seconds.push(ends_in_seconds);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn ranges_cover_the_ring_without_gaps() {
        for pieces in [0, 1, 2, 3, 7, 64] {
            let ranges = token_ranges(pieces);
            assert_eq!(ranges.len(), pieces.max(1) as usize);
            assert!(ranges[0].start.is_empty());
            assert!(ranges[ranges.len() - 1].end.is_empty());
            for pair in ranges.windows(2) {
                assert_eq!(pair[0].end, pair[1].start);
            }
            let edges: Vec<i64> = ranges[1..]
                .iter()
                .map(|range| token_of(&range.start).unwrap().unwrap())
                .collect();
            assert!(edges.is_sorted_by(|left, right| left < right));
        }
    }
}
