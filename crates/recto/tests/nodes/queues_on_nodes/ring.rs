//! Queues for tests on Cassandra nodes. Their message bodies are in rotating tables with short
//! rotation intervals.

use std::time::{Duration, Instant};

use recto::queues::QueueOptions;
use recto::{CassandraAddress, Environment, Recto};
use recto_protocol::queues::StoreOptions;
use recto_queues::{Created, Message, NewMessage, Queue, Queues, RotationStatus, Shards};

use super::naive::cql;
use crate::nodes::open;

/// Maximum duration of a request. It is long, because compilers and other nodes use the same
/// machine.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Interval between two reads of the state of the rotating tables.
const PAUSE: Duration = Duration::from_millis(500);

/// Open queues in a new keyspace.
pub(crate) struct Bed {
    pub(crate) address: CassandraAddress,
    pub(crate) recto: Recto,
    pub(crate) queues: Queues,
}

impl Bed {
    pub(crate) async fn new(address: CassandraAddress, options: StoreOptions) -> Self {
        let recto = open(&address).await.unwrap();
        let store = recto.store().clone();
        let queues = Queues::open(store, Environment::system(), REQUEST_TIMEOUT)
            .await
            .unwrap();
        queues.configure(options).await.unwrap();
        Self {
            address,
            recto,
            queues,
        }
    }

    /// Opens the same queues as a process with the clocks of `environment` would.
    pub(crate) async fn at(&self, environment: Environment) -> Self {
        let store = self.recto.store().clone();
        let queues = Queues::open(store, environment, REQUEST_TIMEOUT).await.unwrap();
        Self {
            address: self.address.clone(),
            recto: self.recto.clone(),
            queues,
        }
    }

    pub(crate) async fn create(&self, name: &str, options: QueueOptions) -> Queue {
        match self.queues.create(name, options).await.unwrap() {
            Created::New(queue) | Created::Existing(queue) => queue,
        }
    }

    /// Waits until the state of the rotating tables meets the condition `is`, and returns this
    /// state. Panics after the time `limit`.
    pub(crate) async fn wait_for_ring(
        &self,
        limit: Duration,
        is: impl Fn(&RotationStatus) -> bool,
    ) -> RotationStatus {
        let begun = Instant::now();
        loop {
            // A node may be restarting, so ignore errors until the time limit.
            if let Ok(ring) = self.queues.rotation().await {
                if is(&ring) {
                    return ring;
                }
                assert!(begun.elapsed() < limit, "{ring:?}");
            }
            assert!(begun.elapsed() < limit, "the ring cannot be read");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Returns the names of the tables that Recto has created for queues in the keyspace.
    pub(crate) async fn tables(&self) -> Vec<String> {
        let keyspace = &self.address.keyspace;
        let text = format!("SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{keyspace}'");
        let mut tables = cql(&self.address).await.first_column(&text).await.unwrap();
        tables.retain(|table| table.starts_with("recto_queue"));
        tables
    }
}

/// Returns store options with the given rotation interval, in seconds. A table is emptied at the
/// earliest three seconds after its interval.
pub(crate) fn slices_of(rotation_seconds: u32) -> StoreOptions {
    StoreOptions {
        rotation_seconds,
        grace_seconds: 3,
        ..StoreOptions::default()
    }
}

pub(crate) async fn send(shard: &Shards, count: usize) {
    let messages = (0..count).map(|number| NewMessage::new(number.to_string()));
    for sent in shard.send(messages.collect()).await {
        sent.unwrap();
    }
}

pub(crate) async fn receive(shard: &Shards, most: usize) -> Vec<Message> {
    shard.receive(most, None, Duration::ZERO).await.unwrap()
}

/// Receives and acknowledges messages until none remains. Returns their bodies.
pub(crate) async fn work_until_empty(shard: &Shards) -> Vec<String> {
    let mut fired = Vec::new();
    loop {
        let received = receive(shard, 100).await;
        if received.is_empty() {
            return fired;
        }
        let receipts: Vec<_> = received.iter().map(|message| message.receipt).collect();
        shard.ack(&receipts).await.unwrap();
        fired.extend(
            received
                .into_iter()
                .map(|message| String::from_utf8(message.body).unwrap()),
        );
    }
}
