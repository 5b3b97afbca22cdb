//! Naive queue for comparison. It has one row for each job, and deletes the row when the job is
//! complete.

use std::fmt::Display;
use std::time::Duration;

use futures::stream::{self, TryStreamExt as _};
use recto::store::StoreError;
use recto::{CassandraAddress, Environment};
use recto_cassandra::CassandraConfig;
use recto_cassandra::testing::{Met, PlainCql};

pub(crate) const TABLE: &str = "naive_jobs";
const RECEIVE: &str = "SELECT id FROM naive_jobs WHERE queue = 'jobs' LIMIT 10";
/// Maximum number of concurrent statements.
const AT_ONCE: usize = 16;
/// Maximum number of attempts of a statement. The test repeats a failed statement after `PAUSE`,
/// because a node may be down.
const MAX_ATTEMPTS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(200);

pub(crate) struct Naive(PlainCql);

impl Naive {
    /// Creates the table of the queue in an existing keyspace. After `gc_grace_seconds`, nodes may
    /// purge deletions of rows (tombstones).
    pub(crate) async fn create(address: &CassandraAddress, gc_grace_seconds: u32) -> Self {
        let naive = Self(cql(address).await);
        let table = format!(
            "CREATE TABLE {TABLE} (queue text, id bigint, body text, PRIMARY KEY (queue, id)) \
             WITH gc_grace_seconds = {gc_grace_seconds}"
        );
        naive.0.send(&table).await.unwrap();
        naive
    }

    pub(crate) async fn send(&self, count: usize) {
        let inserts = (0..count)
            .map(|id| format!("INSERT INTO {TABLE} (queue, id, body) VALUES ('jobs', {id}, 'job {id}')"));
        self.send_all(inserts).await;
    }

    /// Completes the first `count` jobs by deleting their rows, as workers that received the jobs
    /// would.
    pub(crate) async fn finish(&self, count: usize) {
        self.send_all((0..count).map(deletion)).await;
    }

    /// Receives and completes jobs until no job remains. Returns the completed jobs.
    pub(crate) async fn work_until_empty(&self) -> Vec<String> {
        let mut fired = Vec::new();
        loop {
            let received = until_answered(async || self.0.first_column(RECEIVE).await).await;
            if received.is_empty() {
                return fired;
            }
            self.send_all(received.iter().map(deletion)).await;
            fired.extend(received);
        }
    }

    /// Returns, for each node, the number of rows and of tombstones that the node reads to find the
    /// next jobs.
    pub(crate) async fn met_by_a_receive(&self) -> Vec<Met> {
        self.0.met(RECEIVE).await.unwrap()
    }

    async fn send_all(&self, statements: impl Iterator<Item = String>) {
        let sent = stream::iter(statements.map(Ok::<_, StoreError>));
        let each = sent.try_for_each_concurrent(AT_ONCE, async |statement| {
            until_answered(async || self.0.send(&statement).await).await;
            Ok(())
        });
        each.await.unwrap();
    }
}

fn deletion(id: impl Display) -> String {
    format!("DELETE FROM {TABLE} WHERE queue = 'jobs' AND id = {id}")
}

/// Returns a client that executes CQL statements in an existing keyspace.
pub(crate) async fn cql(address: &CassandraAddress) -> PlainCql {
    let config = CassandraConfig::new(address.hosts.clone(), address.keyspace.clone());
    PlainCql::connect(config, Environment::system()).await.unwrap()
}

/// Returns the number of rows in a table.
pub(crate) async fn rows(address: &CassandraAddress, table: &str) -> usize {
    let cql = cql(address).await;
    let count = format!("SELECT count(*) FROM {table}");
    let counted = until_answered(async || cql.first_column(&count).await).await;
    counted[0].parse().unwrap()
}

/// Executes a statement, and repeats it after errors. Returns its result. The statement must have
/// the same effect when it is executed twice.
async fn until_answered<T>(statement: impl AsyncFn() -> Result<T, StoreError>) -> T {
    for _ in 1..MAX_ATTEMPTS {
        if let Ok(answer) = statement().await {
            return answer;
        }
        tokio::time::sleep(PAUSE).await;
    }
    statement().await.unwrap()
}
