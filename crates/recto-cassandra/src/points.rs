//! Reads of rows by their keys, several rows per request.
//!
//! The request dominates the cost of reading a row. Reading twenty rows with one `IN` takes a
//! quarter of the time, and of the processor time, of twenty requests
//! (docs/design/cassandra-store.md). One request reads rows that have the same first replica,
//! because a coordinator without a copy of a row must ask another node for it.

use std::collections::HashMap;
use std::hash::Hash;
use std::iter;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::stream::{self, StreamExt, TryStreamExt};
use recto_model::{Cells, RowRef, RowSet, Type};
use recto_store::read::get_each;
use recto_store::{PointRead, ReadOptions, RowsRead, StoreError, StoreErrorKind};
use scylla::frame::response::result::TableSpec;
use scylla::routing::Token;
use scylla::routing::partitioner::{Murmur3Partitioner, Partitioner};

use crate::client::{Client, Deadline};
use crate::config::is_serial;
use crate::cql::{Statements, name_in_keyspace};
use crate::escape::{escaped, is_escaped};
use crate::read::{CassandraSnapshot, Rows};

/// Maximum number of keys of one request. Cloud services that set Cassandra's
/// `partition_keys_in_select_fail_threshold` allow this number. Cassandra itself does not set the
/// threshold by default.
const MAX_KEYS: usize = 20;
/// Maximum number of requests for several keys that one read sends concurrently.
const MAX_REQUESTS: usize = 16;

/// Reads that share a request, as indexes into the list of all reads. If they read different
/// partitions, also the token of the first partition.
type Group = (Vec<usize>, Option<Token>);

/// Reads the rows of `reads`, in their order. The cost of a request for several rows (round trips,
/// statements, tombstones) is in the result of its first row.
pub(crate) async fn get_many(
    snapshot: &CassandraSnapshot,
    reads: &[PointRead],
    options: &ReadOptions,
) -> Result<Vec<RowsRead>, StoreError> {
    let groups = groups(&snapshot.client, reads, options);
    if groups.is_empty() || groups.len() == reads.len() {
        return get_each(snapshot, reads, options).await;
    }
    let mut found: Vec<RowsRead> = iter::repeat_with(RowsRead::default).take(reads.len()).collect();
    let deadline = snapshot.client.request_deadline(options.timeout);
    let requests: Vec<_> = groups
        .iter()
        .map(|group| get_group(snapshot, reads, group, (options, &deadline)))
        .collect();
    let mut reading = stream::iter(requests).buffer_unordered(MAX_REQUESTS);
    while let Some((numbers, rows)) = reading.try_next().await? {
        for (number, row) in numbers.iter().zip(rows) {
            found[*number] = row;
        }
    }
    Ok(found)
}

/// Groups the reads that can share a request:
///
/// - reads of partitions of one row and a key of one column, with the same first replica
/// - reads of rows of the same partition
///
/// Returns no groups if the reads cannot share requests.
fn groups(client: &Client, reads: &[PointRead], options: &ReadOptions) -> Vec<Group> {
    let Some(first) = reads.first() else {
        return Vec::new();
    };
    let table = &first.table;
    let is_serial = is_serial(options.consistency.unwrap_or(client.config.consistency));
    let are_alike = reads.iter().all(|read| Arc::ptr_eq(&read.table, table));
    let is_refused = client.refuses_many.load(Ordering::Relaxed);
    if is_serial || is_refused || !are_alike {
        return Vec::new();
    }
    let is_whole_key = table.clustering().is_empty() && table.partition().len() == 1;
    let columns = if is_whole_key {
        table.partition()
    } else {
        table.clustering()
    };
    // Do not use a list of inet keys: Cassandra normalizes the elements of a list. It would look
    // for the short form of an IPv4 address that is stored in a longer form.
    if columns.is_empty() || columns.iter().any(|column| column.ty == Type::Inet) {
        return Vec::new();
    }
    if is_whole_key {
        by_node(client, reads)
    } else {
        group(reads.iter().map(|read| (&read.partition, None)))
    }
}

/// Groups reads of one-row partitions by their first replica. This node coordinates the request of
/// its group.
fn by_node(client: &Client, reads: &[PointRead]) -> Vec<Group> {
    let table = &reads[0].table;
    let cluster = client.session.get_cluster_state();
    let spec = TableSpec::borrowed(&client.config.keyspace, name_in_keyspace(table.name()));
    group(reads.iter().map(|read| {
        let key = read.partition.get(0).unwrap_or_default();
        let token = Murmur3Partitioner.hash_one(&if is_escaped(table) {
            escaped(key)
        } else {
            key.into()
        });
        (client.coordinator.of(token, &spec, &cluster), Some(token))
    }))
}

/// Groups reads (by index) whose `keys` are equal, in groups of at most [`MAX_KEYS`].
fn group<K: Eq + Hash>(keys: impl Iterator<Item = (K, Option<Token>)>) -> Vec<Group> {
    let mut of_key: HashMap<K, Vec<(usize, Option<Token>)>> = HashMap::new();
    for (number, (key, token)) in keys.enumerate() {
        of_key.entry(key).or_default().push((number, token));
    }
    let groups = of_key.into_values().flat_map(|of_key| {
        let group = |range: Range<usize>| {
            let group = &of_key[range];
            let numbers = group.iter().map(|(number, _)| *number);
            (numbers.collect(), group[0].1)
        };
        even(of_key.len(), MAX_KEYS).map(group).collect::<Vec<Group>>()
    });
    groups.collect()
}

/// Splits `count` into ranges of about equal size, at most `most` each, so that all requests
/// complete at about the same time.
fn even(count: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let size = count.div_ceil(count.div_ceil(most));
    (0..count)
        .step_by(size)
        .map(move |start| start..count.min(start + size))
}

async fn get_group<'g>(
    snapshot: &CassandraSnapshot,
    reads: &[PointRead],
    (numbers, token): &'g Group,
    (options, deadline): (&ReadOptions, &Deadline),
) -> Result<(&'g [usize], Vec<RowsRead>), StoreError> {
    let client = &snapshot.client;
    if numbers.len() > 1 {
        for number in numbers {
            client.limits.check_point(&reads[*number])?;
        }
        match get_together(client, reads, numbers, *token, options).await {
            Ok(rows) => return Ok((numbers, rows)),
            // Remember the rejection, and read the rows one by one: a user who may not read several
            // rows in one request may still read each row.
            Err(error) if error.kind() == StoreErrorKind::Invalid => {
                client.refuses_many.store(true, Ordering::Relaxed);
            }
            // The error does not say which row crosses too many tombstones, so read the rows one by
            // one.
            Err(error) if error.kind() == StoreErrorKind::Tombstones => {}
            Err(error) => return Err(error),
        }
    }
    let options = ReadOptions {
        timeout: deadline.remaining()?,
        ..*options
    };
    let alone = numbers.iter().map(|number| &reads[*number]);
    let rows = get_each(snapshot, alone, &options).await?;
    Ok((numbers, rows))
}

async fn get_together(
    client: &Client,
    reads: &[PointRead],
    numbers: &[usize],
    token: Option<Token>,
    options: &ReadOptions,
) -> Result<Vec<RowsRead>, StoreError> {
    let PointRead { table, partition, .. } = &reads[numbers[0]];
    let partition = (!table.clustering().is_empty()).then_some(partition);
    let key = |number: &usize| {
        let read = &reads[*number];
        if partition.is_some() {
            &read.clustering
        } else {
            &read.partition
        }
    };
    let keys: Vec<&Cells> = numbers.iter().map(key).collect();
    let statements = Statements::new(&client.config.keyspace, table);
    let mut settings = client.settings(options.consistency, options.timeout);
    if let Some(token) = token {
        settings.balancing = Some(Arc::new(client.coordinator.towards(token)));
    }
    // Ignore the byte limit, as a read of a single row does.
    let unlimited = ReadOptions {
        max_bytes: u64::MAX,
        ..*options
    };
    let limit = keys.len() as u32;
    let mut rows = match partition {
        Some(partition) => Rows::in_partition(table, partition, &unlimited, limit),
        None => Rows::new(table, &unlimited, limit),
    };
    let request = statements.select_keys(partition, &keys, rows.selected);
    rows.read(client, request, &settings).await?;
    let key_column = partition.map_or(0, Cells::len);
    Ok(each_of(&keys, key_column, rows.finish(true)))
}

/// Splits the rows of a request by key, one result for each key. In a row, the cells of its key
/// begin at column `key_column`.
fn each_of(keys: &[&Cells], key_column: usize, read: RowsRead) -> Vec<RowsRead> {
    let one = |key: &&Cells| {
        let has_key = |row: &RowRef<'_>| {
            let mut cells = key.iter().enumerate();
            cells.all(|(column, cell)| row.get(key_column + column) == cell)
        };
        let mut one = RowsRead {
            rows: RowSet::new(read.rows.width()),
            exhausted: true,
            ..RowsRead::default()
        };
        if let Some((at, row)) = read.rows.iter().enumerate().find(|(_, row)| has_key(row)) {
            one.rows.push_row(row);
            one.bytes = one.rows.byte_len() as u64;
            one.stamps.extend(read.stamps.get(at));
            one.ends_in_seconds.extend(read.ends_in_seconds.get(at));
        }
        one
    };
    let mut each: Vec<RowsRead> = keys.iter().map(one).collect();
    if let Some(first) = each.first_mut() {
        first.round_trips = read.round_trips;
        first.statements = read.statements;
        first.tombstones = read.tombstones;
    }
    each
}
