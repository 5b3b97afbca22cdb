//! Records the order in which a real Cassandra sorts test values of each type that keys can have.
//! The output is the file `vectors/order-cassandra-5.0.txt`:
//!
//! ```text
//! cargo run -p recto-testkit --example record_order > crates/recto-testkit/vectors/order-cassandra-5.0.txt
//! ```
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::sync::Arc;

use recto_cassandra::{CassandraConfig, CassandraStore, create_keyspace, drop_keyspace};
use recto_model::table::{Column, ColumnKind, Direction, ReadDirection, TableOptions, WriteKind};
use recto_model::{Bound, Cells, Environment, Slice, Table, Type, cell, extremes};
use recto_store::{Mutation, Operation, PartitionWrite, ReadOptions, Stamp, Store, WriteOptions};
use recto_testkit::rig::{Cluster, unique_keyspace};

/// Maximum size of a recorded value, in bytes. Longer values would make the file unreadable;
/// differential tests cover them.
const MAX_CELL_BYTES: usize = 400;
/// Maximum number of rows to read: more than the test values of any type.
const LIMIT: u32 = 1_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let cassandra = Cluster::shared()?;
    let config = CassandraConfig::new([cassandra.address()], unique_keyspace("record_order"));
    create_keyspace(config.clone(), Environment::system(), None).await?;
    let store = CassandraStore::connect(config.clone(), Environment::system()).await?;
    println!("# The ascending clustering order of Apache Cassandra 5.0: type, cell in hexadecimal.");
    println!("# Written by the example record_order of recto-testkit.");
    for ty in Type::ORDERABLE {
        for cell in ordered(&store, &ty).await? {
            print!("{ty} ");
            for byte in cell {
                print!("{byte:02x}");
            }
            println!();
        }
    }
    drop_keyspace(config, Environment::system()).await?;
    Ok(())
}

/// Stores the test values of a type in a Cassandra table. Returns their bytes in the order in which
/// Cassandra returns them.
async fn ordered(store: &CassandraStore, ty: &Type) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let column = |name: &str, ty: Type, kind| Column {
        name: name.into(),
        ty,
        kind,
    };
    let columns = vec![
        column("p", Type::Int, ColumnKind::Partition),
        column("c", ty.clone(), ColumnKind::Clustering(Direction::Ascending)),
        column("v", Type::Int, ColumnKind::Regular(WriteKind::Plain)),
    ];
    let table = Arc::new(Table::new(format!("of_{ty}"), columns, TableOptions::default())?);
    store.create_table(&table).await?;
    let one = |bytes: &[u8]| -> Cells { [Some(bytes)].into_iter().collect() };
    let partition = one(&0_i32.to_be_bytes());
    for value in extremes::values(ty) {
        let mut bytes = Vec::new();
        cell::encode(ty, &value, &mut bytes)?;
        if bytes.len() > MAX_CELL_BYTES {
            continue;
        }
        let operation = Operation::Put {
            clustering: one(&bytes),
            cells: one(&0_i32.to_be_bytes()),
            replace: true,
        };
        let mutations = vec![Mutation {
            operation,
            stamp: Some(Stamp(1)),
            ttl_seconds: None,
        }];
        let write = PartitionWrite {
            table: Arc::clone(&table),
            partition: partition.clone(),
            mutations,
        };
        store.write(write, WriteOptions::default()).await?;
    }
    let slice = Slice {
        table,
        partition,
        from: Bound::Before(Cells::new()),
        to: Bound::After(Cells::new()),
        direction: ReadDirection::Forward,
        limit: LIMIT,
    };
    let read = store.snapshot()?.slice(&slice, &ReadOptions::default()).await?;
    Ok(read
        .rows
        .iter()
        .map(|row| row.get(1).unwrap_or_default().to_vec())
        .collect())
}
