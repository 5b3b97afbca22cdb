//! Measures conditional writes of one partition on three nodes that the program starts. It compares
//! two ways to choose the node of a request: any replica (the driver's default), and one
//! coordinator (what the store does). Run it by `cargo run -p recto-cassandra --example
//! one_coordinator`.
//!
//! 1, 4 and 16 clients change a version as fast as they can. Each client has its own connections,
//! like a separate process. Rounds with any replica and rounds with one coordinator alternate,
//! first with `paxos_variant` v1, then with v2. A run takes five minutes.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use recto_cassandra::{CassandraConfig, CassandraStore, create_keyspace};
use recto_model::table::{ColumnKind, TableOptions, WriteKind};
use recto_model::{Cells, Column, Direction, Environment, Table, Type};
use recto_store::{
    Cas, CasCondition, CasOutcome, Mutation, Operation, RowAddress, Store, TableOutcome, WriteOptions,
};
use recto_testkit::rig::{Cluster, ClusterOptions, Nodes};
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency};
use scylla::value::{MaybeUnset, Row};

const KEYSPACE: &str = "coordinators";
const CLIENTS: [usize; 3] = [1, 4, 16];
const ROUNDS: i32 = 3;
const ROUND: Duration = Duration::from_secs(6);
const TIMEOUT: Duration = Duration::from_secs(5);

/// Client that changes the version of a partition by conditional writes.
enum Client {
    /// Client that uses only the driver, which sends a request to any replica.
    Any(Box<(Session, PreparedStatement, PreparedStatement)>),
    /// Client that uses the store, which sends all requests to one coordinator.
    One(CassandraStore, Arc<Table>),
}

enum Outcome {
    Applied,
    Refused(Option<i32>),
    Unknown,
}

/// Number of writes by outcome, their durations, and the duration of the round, over several
/// clients.
#[derive(Default)]
struct Counts {
    applied: usize,
    refused: usize,
    unknown: usize,
    millis: Vec<f64>,
    seconds: f64,
}

impl Client {
    async fn any(hosts: &[String]) -> Self {
        let profile = ExecutionProfile::builder()
            .consistency(Consistency::LocalQuorum)
            .serial_consistency(Some(SerialConsistency::LocalSerial))
            .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
            .request_timeout(Some(TIMEOUT))
            .build();
        let session = SessionBuilder::new()
            .known_nodes(hosts)
            .default_execution_profile_handle(profile.into_handle())
            .build()
            .await
            .unwrap();
        let update = format!("UPDATE {KEYSPACE}.versions SET ver = ? WHERE p = ?");
        let condition = session.prepare(format!("{update} IF ver = ?")).await.unwrap();
        let change = session.prepare(update).await.unwrap();
        Self::Any(Box::new((session, condition, change)))
    }

    async fn one(config: CassandraConfig, table: &Arc<Table>) -> Self {
        let store = CassandraStore::connect(config, Environment::system())
            .await
            .unwrap();
        Self::One(store, Arc::clone(table))
    }

    async fn cas(&self, partition: i32, expected: Option<i32>, new: i32) -> Outcome {
        match self {
            Self::Any(prepared) => {
                let (session, condition, change) = &**prepared;
                let mut batch = Batch::new(BatchType::Unlogged);
                batch.append_statement(condition.clone());
                batch.append_statement(change.clone());
                let values = ((MaybeUnset::<i32>::Unset, partition, expected), (new, partition));
                let Ok(result) = session.batch(&batch, values).await else {
                    return Outcome::Unknown;
                };
                let row = result.into_rows_result().unwrap().first_row::<Row>().unwrap();
                let columns = row.columns;
                if columns[0].as_ref().unwrap().as_boolean().unwrap() {
                    return Outcome::Applied;
                }
                let current = columns.iter().skip(1).flatten().last();
                Outcome::Refused(current.and_then(scylla::value::CqlValue::as_int))
            }
            Self::One(store, table) => {
                let options = WriteOptions {
                    timeout: TIMEOUT,
                    ..WriteOptions::default()
                };
                match store
                    .cas(change_of(table, partition, expected, new), options)
                    .await
                {
                    Ok(CasOutcome::Applied) => Outcome::Applied,
                    Ok(CasOutcome::NotApplied { current }) => {
                        let current = current[0].as_deref();
                        Outcome::Refused(current.map(|cell| i32::from_be_bytes(cell.try_into().unwrap())))
                    }
                    _ => Outcome::Unknown,
                }
            }
        }
    }

    /// Changes the version repeatedly for the time of a round. Each change expects the version that
    /// the client knows last.
    async fn run(&self, partition: i32, number: usize) -> Counts {
        let mut counts = Counts::default();
        let (mut expected, mut new) = (None, i32::try_from(number).unwrap() * 1_000_000);
        let start = Instant::now();
        while start.elapsed() < ROUND {
            new += 1;
            let sent = Instant::now();
            match self.cas(partition, expected, new).await {
                Outcome::Applied => {
                    counts.applied += 1;
                    expected = Some(new);
                }
                Outcome::Refused(current) => {
                    counts.refused += 1;
                    expected = current;
                }
                Outcome::Unknown => counts.unknown += 1,
            }
            counts.millis.push(sent.elapsed().as_secs_f64() * 1e3);
        }
        counts
    }
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.applied += other.applied;
        self.refused += other.refused;
        self.unknown += other.unknown;
        self.millis.extend(other.millis);
    }

    fn line(&mut self) -> String {
        self.millis.sort_by(f64::total_cmp);
        let at = |percent: usize| self.millis[self.millis.len() * percent / 100];
        format!(
            "{:.0} | {:.0} | {} | {:.0} | {:.0}",
            self.applied as f64 / self.seconds,
            self.refused as f64 / self.seconds,
            self.unknown,
            at(50),
            at(99),
        )
    }
}

fn change_of(table: &Arc<Table>, partition: i32, expected: Option<i32>, new: i32) -> Cas {
    Cas {
        table: Arc::clone(table),
        partition: int(partition),
        conditions: vec![CasCondition {
            row: RowAddress::Static,
            column: 0,
            expected: expected.map(|version| version.to_be_bytes().to_vec()),
        }],
        mutations: vec![Mutation {
            operation: Operation::PatchStatic {
                columns: vec![0],
                cells: int(new),
            },
            stamp: None,
            ttl_seconds: None,
        }],
    }
}

fn int(value: i32) -> Cells {
    [Some(&value.to_be_bytes()[..])].into_iter().collect()
}

fn table() -> Arc<Table> {
    let column = |name: &str, kind| Column {
        name: name.to_owned(),
        ty: Type::Int,
        kind,
    };
    let columns = vec![
        column("p", ColumnKind::Partition),
        column("c", ColumnKind::Clustering(Direction::Ascending)),
        column("ver", ColumnKind::Static(WriteKind::Cas)),
    ];
    Arc::new(Table::new("versions", columns, TableOptions::default()).unwrap())
}

/// Runs all clients concurrently for one round.
async fn round(clients: &[Client], partition: i32) -> Counts {
    let start = Instant::now();
    let runs = (1..)
        .zip(clients)
        .map(|(number, client)| client.run(partition, number));
    let mut together = Counts::default();
    for counts in join_all(runs).await {
        together.add(counts);
    }
    together.seconds = start.elapsed().as_secs_f64();
    together
}

async fn measure(variant: &str) {
    let dir = tempfile::tempdir().unwrap();
    let options = ClusterOptions::new(Nodes::Three).setting("paxos_variant", variant);
    let cluster = Cluster::start_with(&options, dir.path()).unwrap();
    let config = CassandraConfig::new(cluster.addresses(), KEYSPACE);
    create_keyspace(config.clone(), Environment::system(), None)
        .await
        .unwrap();
    let table = table();
    let store = CassandraStore::connect(config.clone(), Environment::system())
        .await
        .unwrap();
    let made = store.create_table(&table).await.unwrap();
    assert!(matches!(made, TableOutcome::Done), "{made:?}");
    let (mut any, mut one) = (Vec::new(), Vec::new());
    for count in CLIENTS {
        while any.len() < count {
            any.push(Client::any(&cluster.addresses()).await);
            one.push(Client::one(config.clone(), &table).await);
        }
        let (mut by_any, mut by_one) = (Counts::default(), Counts::default());
        for turn in 0..ROUNDS {
            let partition = turn * 100 + i32::try_from(count).unwrap();
            for (clients, together) in [(&any, &mut by_any), (&one, &mut by_one)] {
                let counts = round(clients, partition).await;
                together.seconds += counts.seconds;
                together.add(counts);
            }
        }
        println!("| {variant} | {count} | any replica | {} |", by_any.line());
        println!("| {variant} | {count} | one coordinator | {} |", by_one.line());
    }
}

#[tokio::main]
async fn main() {
    println!("| `paxos_variant` | clients | sent to | applied/s | refused/s | unknown | p50, ms | p99, ms |");
    println!("|---|---:|---|---:|---:|---:|---:|---:|");
    for variant in ["v1", "v2"] {
        measure(variant).await;
    }
}
