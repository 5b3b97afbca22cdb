//! Token scans: whole tables in Cassandra's token order, resumable at any row.
//!
//! A position is the key of the row a scan stopped at, with its partition's token. Going on from it
//! takes up to three steps: the rest of that partition (a slice after the row), the partitions of
//! the same token that follow it (two keys rarely share one, but may), then the greater tokens.

use std::sync::Arc;

use recto_model::table::ReadDirection;
use recto_model::{Bound, Cells, RowRef, Slice, Table};
use recto_store::{ReadOptions, ScanPosition, ScanRead, StoreError, StoreErrorKind, TokenRange};
use scylla::response::PagingState;

use crate::client::{Call, Client, Settings};
use crate::cql::Statements;
use crate::read::{life, rows_of, slice_requests};
use crate::rows::{AnswerRow, each_row};

/// The most ranges a table is split into.
pub const MAX_TOKEN_RANGES: u32 = 65_536;
/// The most partitions of one token that a scan looks at. Two keys of one 64-bit token are an
/// accident; many are an attack on the hash.
const MAX_PARTITIONS_PER_TOKEN: i32 = 1_024;
/// The version of the form of positions.
const POSITION_VERSION: u8 = 1;

/// Splits the ring of Murmur3 tokens into `pieces` ranges of equal width. Of a range, the start is
/// outside and the end inside, both 8 bytes, big-endian; empty for the ring's own ends.
pub(crate) fn token_ranges(pieces: u32) -> Vec<TokenRange> {
    let pieces = pieces.clamp(1, MAX_TOKEN_RANGES);
    let edge = |index: u32| {
        if index == 0 || index == pieces {
            return Vec::new();
        }
        let token = i128::from(i64::MIN) + (i128::from(index) << 64) / i128::from(pieces);
        i64::try_from(token)
            .expect("a share of the ring lies on the ring")
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

/// Where a scan stopped: after the row with this key; with no clustering cells, after the partition.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Position {
    token: i64,
    partition: Cells,
    clustering: Cells,
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
        return Err(StoreError::new(StoreErrorKind::Invalid, "a scan has the limit 0"));
    }
    let mut scan = Scan {
        client,
        table,
        settings: client.settings(options.consistency, options.timeout),
        limit,
        max_bytes: options.max_bytes,
        stamps: options.stamps,
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
    read: ScanRead,
    /// The token of the last row read.
    token: i64,
    /// Whether it ends here because what follows cannot be read: whoever goes on is told why.
    is_cut: bool,
}

impl Scan<'_> {
    fn full(&self) -> bool {
        let rows = &self.read.rows;
        self.is_cut
            || rows.len() as u64 >= u64::from(self.limit)
            || (!rows.is_empty() && rows.byte_len() as u64 >= self.max_bytes)
    }

    /// Where the last row read lies.
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

    /// The rows of a partition after `position`.
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

    /// The rows of a partition from `from` on.
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
        for request in slice_requests(&client.config.keyspace, &slice, self.stamps) {
            if self.full() {
                return Ok(());
            }
            let request = request.limited(self.wanted());
            self.statement(&request, Some(token), begun).await?;
        }
        Ok(())
    }

    /// The partitions of the position's token that follow its own.
    async fn rest_of_token(&mut self, position: &Position) -> Result<(), StoreError> {
        if self.full() {
            return Ok(());
        }
        for partition in following(self.client, self.table, &self.settings, position).await? {
            self.partition(position.token, &partition, Bound::start(), false)
                .await?;
        }
        Ok(())
    }

    /// The rows of tokens after `after` up to and with `up_to`.
    async fn tokens(&mut self, after: Option<i64>, up_to: Option<i64>) -> Result<(), StoreError> {
        let limit = i32::try_from(self.wanted()).unwrap_or(i32::MAX);
        let request = Statements::new(&self.client.config.keyspace, self.table).select_tokens(
            (after, up_to),
            limit,
            self.stamps,
        );
        self.statement(&request, None, false).await
    }

    /// Appends the rows of one statement; their token is `token`, or follows their columns; then come their
    /// write times, if they are asked for. A row without a clustering key stands for a partition with
    /// static cells and no rows, and is left out if rows of its partition were returned before (`begun`).
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
                // Rows before a gap that cannot be passed are returned first.
                Err(error) if error.kind() == StoreErrorKind::Tombstones && !self.read.rows.is_empty() => {
                    self.is_cut = true;
                    return Ok(());
                }
                answer => answer?,
            };
            let more = answer.more.clone();
            let before = (self.read.rows.len(), self.read.rows.byte_len());
            let result = rows_of(answer)?;
            each_row(&result, &request.result_types, |row| {
                self.append(row, token, begun)
            })?;
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

/// The partitions of a position's token that follow its own.
async fn following(
    client: &Client,
    table: &Table,
    settings: &Settings,
    position: &Position,
) -> Result<Vec<Cells>, StoreError> {
    let request = Statements::new(&client.config.keyspace, table)
        .select_partitions_of_token(position.token, MAX_PARTITIONS_PER_TOKEN);
    let prepared = client.prepare(&request, &settings.deadline).await?;
    let call = Call::Statement(&prepared, &request.values);
    let answer = client
        .send(call, settings)
        .await
        .map_err(|failure| failure.error)?;
    let done = serialized_key(position.partition.as_row());
    let mut following: Vec<Cells> = Vec::new();
    each_row(&rows_of(answer)?, &request.result_types, |row| {
        let key: Cells = row.iter().collect();
        // Cassandra orders partitions of one token by the bytes of their keys.
        if serialized_key(key.as_row()) > done {
            following.push(key);
        }
        Ok(())
    })?;
    Ok(following)
}

/// The keys of partitions, of which Cassandra reads no more than one row each.
pub(crate) async fn partitions(
    client: &Client,
    table: &Arc<Table>,
    after: Option<&ScanPosition>,
    limit: u32,
    options: &ReadOptions,
) -> Result<ScanRead, StoreError> {
    if limit == 0 {
        let message = "a list of partitions has the limit 0";
        return Err(StoreError::new(StoreErrorKind::Invalid, message));
    }
    let settings = client.settings(options.consistency, options.timeout);
    let after = after
        .map(|position| decode_position(table, &position.0))
        .transpose()?;
    let mut found: Vec<(i64, Cells)> = Vec::new();
    if let Some(after) = &after {
        let rest = following(client, table, &settings, after).await?;
        found.extend(rest.into_iter().map(|partition| (after.token, partition)));
    }
    let wanted = (limit as usize).saturating_sub(found.len());
    if wanted > 0 {
        let wanted = i32::try_from(wanted).unwrap_or(i32::MAX);
        let request = Statements::new(&client.config.keyspace, table)
            .select_partitions(after.map(|position| position.token), wanted);
        let prepared = client.prepare(&request, &settings.deadline).await?;
        let mut from = PagingState::start();
        let mut most = prepared.page_rows(options.max_bytes, wanted.unsigned_abs());
        loop {
            let answer = client
                .page(&prepared, &request.values, &mut most, &from, &settings)
                .await?;
            let more = answer.more.clone();
            each_row(&rows_of(answer)?, &request.result_types, |row| {
                let width = table.partition().len();
                let token = row.get(width).map_or(Ok(None), token_of)?.unwrap_or_default();
                found.push((token, (0..width).map(|column| row.get(column)).collect()));
                Ok(())
            })?;
            match more {
                Some(state) if found.len() < limit as usize => from = state,
                _ => break,
            }
        }
    }
    found.truncate(limit as usize);
    Ok(listed(table, found, limit))
}

/// Partitions as they are returned; where to go on, if there are as many as were asked for.
fn listed(table: &Table, found: Vec<(i64, Cells)>, limit: u32) -> ScanRead {
    let mut rows = recto_model::RowSet::new(table.partition().len());
    for (_, partition) in &found {
        rows.push_row(partition.as_row());
    }
    let last = found
        .into_iter()
        .next_back()
        .filter(|_| rows.len() == limit as usize);
    ScanRead {
        bytes: rows.byte_len() as u64,
        rows,
        stamps: Vec::new(),
        ends_in_seconds: Vec::new(),
        next: last.map(|(token, partition)| {
            encode_position(&Position {
                token,
                partition,
                clustering: Cells::new(),
            })
        }),
    }
}

/// The bytes by which Cassandra orders partitions of one token: a sole part as it is, several each
/// with its length before it and a zero after it.
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

fn malformed() -> StoreError {
    StoreError::new(
        StoreErrorKind::Invalid,
        "the token range or scan position is not one of this store and table",
    )
    .with_hint("take ranges from token_ranges and positions from scan, on the same table")
}

fn token_of(bytes: &[u8]) -> Result<Option<i64>, StoreError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let bytes: [u8; 8] = bytes.try_into().map_err(|_| malformed())?;
    Ok(Some(i64::from_be_bytes(bytes)))
}

/// Version, token, then each cell of the key with its length in 4 bytes; the clustering cells are
/// all there or none is.
fn encode_position(position: &Position) -> ScanPosition {
    let mut bytes = vec![POSITION_VERSION];
    bytes.extend_from_slice(&position.token.to_be_bytes());
    for cell in position.partition.iter().chain(position.clustering.iter()) {
        let cell = cell.unwrap_or_default();
        bytes.extend_from_slice(&(cell.len() as u32).to_be_bytes());
        bytes.extend_from_slice(cell);
    }
    ScanPosition(bytes)
}

fn decode_position(table: &Table, bytes: &[u8]) -> Result<Position, StoreError> {
    let (version, bytes) = bytes.split_first().ok_or_else(malformed)?;
    if *version != POSITION_VERSION {
        return Err(StoreError::new(
            StoreErrorKind::Version,
            format!("the scan position is of version {version}, this release reads {POSITION_VERSION}"),
        )
        .with_hint("start the scan of this range again"));
    }
    let (token, mut bytes) = bytes.split_first_chunk::<8>().ok_or_else(malformed)?;
    let mut cells = Cells::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let (cell, rest) = rest.split_at_checked(length).ok_or_else(malformed)?;
        cells.push(Some(cell));
        bytes = rest;
    }
    let partition_len = table.partition().len();
    if !bytes.is_empty() || (cells.len() != partition_len && cells.len() != table.key_len()) {
        return Err(malformed());
    }
    Ok(Position {
        token: i64::from_be_bytes(*token),
        partition: cells.iter().take(partition_len).collect(),
        clustering: cells.iter().skip(partition_len).collect(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use recto_model::table::{ColumnKind, Direction, TableOptions};
    use recto_model::{Column, Type};

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

    #[test]
    fn positions_survive_and_damage_is_refused() {
        let column = |name: &str, kind| Column {
            name: name.to_owned(),
            ty: Type::Blob,
            kind,
        };
        let table = Table::new(
            "t",
            vec![
                column("p", ColumnKind::Partition),
                column("c", ColumnKind::Clustering(Direction::Ascending)),
            ],
            TableOptions::default(),
        )
        .unwrap();
        // Written by earlier releases; every later one reads them.
        let mut golden = include_str!("golden/scan-position-v1.txt").lines();
        for clustering in [Cells::new(), [Some(&b""[..])].into_iter().collect()] {
            let position = Position {
                token: -7,
                partition: [Some(&b"key"[..])].into_iter().collect(),
                clustering,
            };
            let bytes = encode_position(&position).0;
            assert_eq!(decode_position(&table, &bytes).unwrap(), position);
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(Some(&*hex), golden.next());
            for length in 0..bytes.len() {
                let cut = decode_position(&table, &bytes[..length]);
                assert!(cut.is_err() || cut.unwrap() != position);
            }
        }
        assert!(decode_position(&table, &[9, 0]).is_err());
    }

    #[test]
    fn composite_keys_are_ordered_as_cassandra_serializes_them() {
        let key = |cells: &[&[u8]]| {
            serialized_key(cells.iter().map(|cell| Some(*cell)).collect::<Cells>().as_row())
        };
        assert_eq!(key(&[b"ab"]), b"ab");
        assert_eq!(key(&[b"ab", b""]), [0, 2, b'a', b'b', 0, 0, 0, 0]);
    }
}
