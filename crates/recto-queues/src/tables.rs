//! Tables of versioned cells and of bodies. On Cassandra they are plain CQL tables.

use std::sync::Arc;

use recto_model::table::{ColumnKind, Direction, TableOptions, WriteKind};
use recto_model::{Cells, Column, Table, Type};
use recto_protocol::queues::{Address, BodyTable, Chunk, Place, RegisterNumber, Segment, Seq};
use recto_store::{Mutation, Operation, PartitionWrite, Stamp};

const REGISTRY: &str = "recto_queue";
const HEADS: &str = "recto_queue_shard";
const LOGS: &str = "recto_queue_log";
const STATES: &str = "recto_queue_state";
const NOTIFICATIONS: &str = "recto_queue_bell";
const BODIES: &str = "recto_queue_body_";

/// Write timestamp with which each body is written; `DELETED` is the timestamp of its deletion. Fixed
/// timestamps suffice, because each body is written once: numbers of segments are never reused.
const PUT: Stamp = Stamp(1);
const DELETED: Stamp = Stamp(2);

/// Index of the column with the content of a versioned cell (row changed by compare-and-set), in
/// its row or in the static columns. Columns are sorted by name, as Cassandra lists them.
pub(crate) const CONTENT: u16 = 0;
/// Index of the column with the version of a versioned cell. Conditional writes compare the
/// version.
pub(crate) const COMPARED: u16 = 1;

/// Definitions of the tables that store queues.
#[derive(Debug, Clone)]
pub(crate) struct Tables {
    pub(crate) registry: Arc<Table>,
    pub(crate) heads: Arc<Table>,
    pub(crate) logs: Arc<Table>,
    pub(crate) states: Arc<Table>,
    /// Table of the notifier, by which processes learn that messages may be available.
    pub(crate) notifications: Arc<Table>,
    /// Table of message bodies in a store without a ring (body tables used in rotation). Its id is
    /// 0.
    bodies: Arc<Table>,
}

impl Tables {
    pub(crate) fn new() -> Self {
        Self {
            registry: Arc::new(registry()),
            heads: Arc::new(heads()),
            logs: Arc::new(logs()),
            states: Arc::new(states()),
            notifications: Arc::new(notifications()),
            bodies: Arc::new(bodies(BodyTable(0))),
        }
    }

    /// Returns the tables that are created when queues are first opened, except the body tables of
    /// a ring (tables used in rotation).
    pub(crate) fn of(&self, has_ring: bool) -> Vec<Arc<Table>> {
        let last = if has_ring {
            &self.notifications
        } else {
            &self.bodies
        };
        let tables = [&self.registry, &self.heads, &self.logs, &self.states, last];
        tables.map(Arc::clone).to_vec()
    }

    /// Returns the definition of the body table with the id `number`.
    pub(crate) fn bodies(&self, number: BodyTable) -> Arc<Table> {
        match number {
            BodyTable(0) => Arc::clone(&self.bodies),
            other => Arc::new(bodies(other)),
        }
    }

    /// Returns the write that stores bodies, each under its index in the chunk (bodies written
    /// together).
    pub(crate) fn put_bodies<'b>(
        &self,
        table: BodyTable,
        partition: Cells,
        chunk: Chunk,
        bodies: impl IntoIterator<Item = (u16, &'b [u8])>,
    ) -> PartitionWrite {
        let put = |(index, body): (u16, &[u8])| Operation::Put {
            clustering: body_clustering(chunk, index),
            cells: std::iter::once(Some(body)).collect(),
            replace: true,
        };
        let puts = bodies.into_iter().map(put);
        PartitionWrite {
            table: self.bodies(table),
            partition,
            mutations: puts.map(|put| mutation(put, Some(PUT))).collect(),
        }
    }

    /// Returns the write that deletes the bodies of all messages of a released segment.
    pub(crate) fn delete_bodies(&self, table: BodyTable, partition: Cells) -> PartitionWrite {
        PartitionWrite {
            table: self.bodies(table),
            partition,
            mutations: vec![mutation(Operation::DeletePartition, Some(DELETED))],
        }
    }
}

pub(crate) fn mutation(operation: Operation, stamp: Option<Stamp>) -> Mutation {
    Mutation {
        operation,
        stamp,
        ttl_seconds: None,
    }
}

pub(crate) fn registry_partition() -> Cells {
    std::iter::once(Some(&b"registry"[..])).collect()
}

/// Returns the partition key of the ring (list of body tables) in the table of the registry.
pub(crate) fn ring_partition() -> Cells {
    std::iter::once(Some(&b"ring"[..])).collect()
}

pub(crate) fn notifier_partition() -> Cells {
    std::iter::once(Some(&b"bell"[..])).collect()
}

pub(crate) fn notifier_clustering(row: u8) -> Cells {
    std::iter::once(Some(&i32::from(row).to_be_bytes()[..])).collect()
}

/// Returns the clustering key of a queue's slot in the partition of the registry.
pub(crate) fn place_clustering(place: Place) -> Cells {
    std::iter::once(Some(&place.0.cast_signed().to_be_bytes()[..])).collect()
}

pub(crate) fn head_partition(address: Address) -> Cells {
    [&place(address), &shard(address)]
        .into_iter()
        .map(|cell| Some(&cell[..]))
        .collect()
}

/// Returns the partition key of a versioned cell (row changed by compare-and-set), for the table of
/// logs and the table of states.
pub(crate) fn register_partition(address: Address, register: RegisterNumber) -> Cells {
    let register = register.0.cast_signed().to_be_bytes();
    let cells = [place(address), shard(address), register];
    cells.iter().map(|cell| Some(&cell[..])).collect()
}

pub(crate) fn body_partition(address: Address, segment: Segment) -> Cells {
    let (place, shard) = (place(address), shard(address));
    let segment = segment.0.cast_signed().to_be_bytes();
    [&place[..], &shard, &segment].into_iter().map(Some).collect()
}

/// Returns the clustering key of a row of a log: the index of the row. The rows of a segment
/// therefore overwrite the rows of earlier segments that used the same versioned cell.
pub(crate) fn row_clustering(number: Seq) -> Cells {
    std::iter::once(Some(&i32::from(number).to_be_bytes()[..])).collect()
}

/// Returns the clustering key of a body: its chunk (bodies written together), and its index in the
/// chunk. The key is one column, so that a store can read several bodies at once.
pub(crate) fn body_clustering(chunk: Chunk, index: u16) -> Cells {
    let key = [&chunk.0.to_be_bytes()[..], &index.to_be_bytes()].concat();
    std::iter::once(Some(&key[..])).collect()
}

fn place(address: Address) -> [u8; 4] {
    address.place.0.cast_signed().to_be_bytes()
}

fn shard(address: Address) -> [u8; 4] {
    i32::from(address.shard.0).to_be_bytes()
}

fn registry() -> Table {
    let of_all = ColumnKind::Static(WriteKind::Cas);
    let columns = vec![
        column("kind", Type::Text, ColumnKind::Partition),
        column("place", Type::Int, ASCENDING),
        column("content", Type::Blob, of_all),
        column("version", Type::BigInt, of_all),
        column("row", Type::Blob, CAS),
    ];
    made(REGISTRY, columns, TableOptions::default())
}

fn heads() -> Table {
    let columns = vec![
        column("place", Type::Int, ColumnKind::Partition),
        column("shard", Type::Int, ColumnKind::Partition),
        column("head", Type::Blob, CAS),
        column("version", Type::BigInt, CAS),
    ];
    made(HEADS, columns, TableOptions::default())
}

fn logs() -> Table {
    let of_all = ColumnKind::Static(WriteKind::Cas);
    let columns = vec![
        column("place", Type::Int, ColumnKind::Partition),
        column("shard", Type::Int, ColumnKind::Partition),
        column("register", Type::Int, ColumnKind::Partition),
        column("row", Type::Int, ASCENDING),
        column("log", Type::Blob, of_all),
        column("version", Type::BigInt, of_all),
        column("entries", Type::Blob, CAS),
    ];
    made(LOGS, columns, TableOptions::default())
}

fn states() -> Table {
    let columns = vec![
        column("place", Type::Int, ColumnKind::Partition),
        column("shard", Type::Int, ColumnKind::Partition),
        column("register", Type::Int, ColumnKind::Partition),
        column("state", Type::Blob, CAS),
        column("version", Type::BigInt, CAS),
    ];
    made(STATES, columns, TableOptions::default())
}

fn notifications() -> Table {
    let columns = vec![
        column("kind", Type::Text, ColumnKind::Partition),
        column("process", Type::Int, ASCENDING),
        column("slots", Type::Blob, ColumnKind::Regular(WriteKind::Plain)),
    ];
    made(NOTIFICATIONS, columns, TableOptions::default())
}

fn bodies(number: BodyTable) -> Table {
    let columns = vec![
        column("place", Type::Int, ColumnKind::Partition),
        column("shard", Type::Int, ColumnKind::Partition),
        column("segment", Type::BigInt, ColumnKind::Partition),
        column("message", Type::Blob, ASCENDING),
        column("body", Type::Blob, ColumnKind::Regular(WriteKind::Plain)),
    ];
    // Disable automatic snapshots, because Recto empties the whole table again and again.
    let options = TableOptions {
        automatic_snapshots: false,
        ..TableOptions::default()
    };
    made(format!("{BODIES}{}", number.0), columns, options)
}

const CAS: ColumnKind = ColumnKind::Regular(WriteKind::Cas);
const ASCENDING: ColumnKind = ColumnKind::Clustering(Direction::Ascending);

fn column(name: &str, ty: Type, kind: ColumnKind) -> Column {
    Column {
        name: name.into(),
        ty,
        kind,
    }
}

fn made(name: impl Into<String>, columns: Vec<Column>, options: TableOptions) -> Table {
    Table::new(name, columns, options).expect("these columns are a table")
}
