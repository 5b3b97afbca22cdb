//! Phases that measure queues on Cassandra: message rates and conditional writes, receives after
//! many messages, waiting receivers, and rotating tables for message bodies.

mod aged;
mod rolling;
pub(crate) mod servers;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use recto::queues::{Queue, QueueOptions, Queues};
use recto::{CassandraAddress, OpenOptions, Recto, StoreAddress};
use tokio::runtime::Runtime;

use crate::calls::{Calls, Seen};
use crate::report::Section;
use crate::world::World;

/// Time limit of a request to Cassandra. It is long, because the measurements keep the machine
/// busy.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Name of the measured queue in each keyspace.
const QUEUE: &str = "jobs";

/// Runs one of the phases on queues on Cassandra.
pub(super) fn run(phase: &str, world: &mut World) -> Result<Section, String> {
    match phase {
        "cassandra-queues" => servers::run(world),
        "cassandra-queues-aged" => aged::run(world),
        "cassandra-queues-waiting" => waiting::run(world),
        _ => rolling::run(world),
    }
}

/// Open queue on a store wrapper that counts calls.
struct Opened {
    recto: Recto,
    queues: Queues,
    queue: Queue,
    seen: Arc<Seen>,
}

impl Opened {
    /// Connects to Cassandra and opens the queue, as one server does.
    async fn cassandra(address: &str, keyspace: &str) -> Result<Self, String> {
        let address = CassandraAddress::new(vec![address.to_owned()], keyspace);
        let recto = Recto::open_with(StoreAddress::Cassandra(Box::new(address)), options())
            .await
            .map_err(|error| format!("Cassandra: {error}; `recto-rig start` starts one"))?;
        Self::counted(&recto).await
    }

    /// Opens the queue on a wrapper of the store that counts calls.
    async fn counted(recto: &Recto) -> Result<Self, String> {
        let (calls, seen) = Calls::new(recto.store());
        let recto = Recto::with_store(calls, options()).await.unwrap();
        let queues = recto.queues().await.map_err(|error| error.to_string())?;
        let queue = queues.create(QUEUE, QueueOptions::default()).await.unwrap();
        Ok(Self {
            recto,
            queues,
            queue,
            seen,
        })
    }
}

fn options() -> OpenOptions {
    OpenOptions::new().create().request_timeout(TIMEOUT)
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// Returns a keyspace name that is unique for this process. `what` describes the purpose.
fn keyspace(what: &str) -> String {
    format!("recto_benches_{what}_{}", std::process::id())
}
