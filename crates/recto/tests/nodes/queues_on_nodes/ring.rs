//! Queues whose bodies lie in a ring of short slices.

use std::time::{Duration, Instant};

use recto::queues::QueueOptions;
use recto::{CassandraAddress, Environment, Recto};
use recto_jobs::{Created, Message, NewMessage, Queue, Queues, RingView, Shards};
use recto_protocol::queues::StoreOptions;

use super::naive::cql;
use crate::nodes::open;

/// What a request may take beside compilers and other nodes.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// How often the ring is looked at.
const PAUSE: Duration = Duration::from_millis(500);

/// The queues of a keyspace, which is made.
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

    /// The same, as a process knows them that has these clocks.
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
            Created::New(queue) | Created::There(queue) => queue,
        }
    }

    /// Waits until the ring is as it is to be; how it is then.
    pub(crate) async fn wait_for_ring(&self, limit: Duration, is: impl Fn(&RingView) -> bool) -> RingView {
        let begun = Instant::now();
        loop {
            // A node may be on its way back.
            if let Ok(ring) = self.queues.ring().await {
                if is(&ring) {
                    return ring;
                }
                assert!(begun.elapsed() < limit, "{ring:?}");
            }
            assert!(begun.elapsed() < limit, "the ring cannot be read");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The tables of queues.
    pub(crate) async fn tables(&self) -> Vec<String> {
        let keyspace = &self.address.keyspace;
        let text = format!("SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{keyspace}'");
        let mut tables = cql(&self.address).await.first_column(&text).await.unwrap();
        tables.retain(|table| table.starts_with("recto_queue"));
        tables
    }
}

/// Slices of so many seconds; a table is emptied soon after it was left.
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

/// Does messages until there are none; which ones.
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
