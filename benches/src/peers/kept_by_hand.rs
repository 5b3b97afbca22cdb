//! Peer: records with views in Cassandra, kept consistent by hand-optimized statements of the
//! driver, without Recto.

use futures::future::join_all;
use scylla::client::session::Session;
use scylla::serialize::row::SerializeRow;
use scylla::statement::Consistency;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;

use crate::peers::driver::{conditional, session};

/// Maximum number of attempts to change a ticket that other writers change concurrently.
const MAX_ATTEMPTS: u32 = 10_000;

/// Status, time and version of a ticket, as a read returned them.
type Seen = (String, i64, i64);

/// Connection to Cassandra with the prepared statements that maintain records and views.
pub(crate) struct KeptByHand {
    session: Session,
    /// Logged batch of four inserts: an event, and its row in three views.
    append: Batch,
    read: PreparedStatement,
    insert: PreparedStatement,
    change: PreparedStatement,
    put_entry: PreparedStatement,
    delete_entry: PreparedStatement,
}

impl KeptByHand {
    /// Connects to an existing keyspace, creates the tables, and prepares the statements.
    pub(crate) async fn connect(address: &str, keyspace: &str) -> Self {
        let session = session(address, keyspace).await;
        for table in [
            "hand_events (id bigint PRIMARY KEY, a text, b text, c text, at bigint, body text)",
            "hand_events_by_a (a text, at bigint, id bigint, b text, c text, body text, \
             PRIMARY KEY ((a), at, id)) WITH CLUSTERING ORDER BY (at DESC, id ASC)",
            "hand_events_by_b (b text, at bigint, id bigint, a text, c text, body text, \
             PRIMARY KEY ((b), at, id)) WITH CLUSTERING ORDER BY (at DESC, id ASC)",
            "hand_events_by_c (c text, at bigint, id bigint, a text, b text, body text, \
             PRIMARY KEY ((c), at, id)) WITH CLUSTERING ORDER BY (at DESC, id ASC)",
            "hand_tickets (id bigint PRIMARY KEY, status text, at bigint, body text, version bigint)",
            "hand_tickets_by_status (status text, at bigint, id bigint, body text, \
             PRIMARY KEY ((status), at, id)) WITH CLUSTERING ORDER BY (at DESC, id ASC)",
        ] {
            let text = format!("CREATE TABLE IF NOT EXISTS {table}");
            session.query_unpaged(text, ()).await.unwrap();
        }
        session.await_schema_agreement().await.unwrap();
        let prepare = async |text: &str| conditional(&session, text).await;
        let mut append = Batch::new(BatchType::Logged);
        append.set_consistency(Consistency::LocalQuorum);
        for table in [
            "hand_events",
            "hand_events_by_a",
            "hand_events_by_b",
            "hand_events_by_c",
        ] {
            let text = format!("INSERT INTO {table} (id, a, b, c, at, body) VALUES (?, ?, ?, ?, ?, ?)");
            append.append_statement(prepare(&text).await);
        }
        Self {
            append,
            read: prepare("SELECT status, at, version FROM hand_tickets WHERE id = ?").await,
            insert: prepare("INSERT INTO hand_tickets (id, status, at, body, version) VALUES (?, ?, ?, ?, 1) IF NOT EXISTS")
                .await,
            change: prepare(
                "UPDATE hand_tickets SET status = ?, at = ?, version = ? WHERE id = ? IF version = ?",
            )
            .await,
            put_entry: prepare("INSERT INTO hand_tickets_by_status (status, at, id, body) VALUES (?, ?, ?, ?)")
                .await,
            delete_entry: prepare("DELETE FROM hand_tickets_by_status WHERE status = ? AND at = ? AND id = ?")
                .await,
            session,
        }
    }

    async fn run(&self, statement: &PreparedStatement, values: impl SerializeRow) {
        self.session.execute_unpaged(statement, values).await.unwrap();
    }

    /// Inserts an event and its row in three views by one logged batch.
    pub(crate) async fn append(&self, id: i64, [a, b, c]: [&str; 3], body: &str) {
        let row = (id, a, b, c, id, body);
        self.session
            .batch(&self.append, (row, row, row, row))
            .await
            .unwrap();
    }

    /// Inserts a new ticket and its row in the view.
    pub(crate) async fn insert(&self, id: i64, status: &str, at: i64, body: &str) {
        self.run(&self.insert, (id, status, at, body)).await;
        self.run(&self.put_entry, (status, at, id, body)).await;
    }

    async fn read(&self, id: i64) -> Seen {
        let answer = self.session.execute_unpaged(&self.read, (id,)).await.unwrap();
        answer.into_rows_result().unwrap().single_row().unwrap()
    }

    /// Changes the status and the time of a ticket, and moves its row in the view. Reads the
    /// ticket, and changes it only if its version is unchanged. If another writer changed it first,
    /// reads the ticket again.
    pub(crate) async fn change(&self, id: i64, status: &str, at: i64, body: &str) {
        for _ in 0..MAX_ATTEMPTS {
            let seen = self.read(id).await;
            if !self.change_if(id, status, at, seen.2).await {
                continue;
            }
            let put = self.run(&self.put_entry, (status, at, id, body));
            if (seen.0.as_str(), seen.1) == (status, at) {
                return put.await;
            }
            let delete = self.run(&self.delete_entry, (seen.0.as_str(), seen.1, id));
            futures::future::join(put, delete).await;
            return;
        }
        panic!("{MAX_ATTEMPTS} attempts were not enough");
    }

    /// Sends the conditional write that changes a ticket if it still has `version`. Does not change
    /// the view. Returns whether the write was applied.
    pub(crate) async fn change_if(&self, id: i64, status: &str, at: i64, version: i64) -> bool {
        let values = (status, at, version + 1, id, version);
        // On several nodes, the write may time out with an unknown outcome. The caller then reads
        // the ticket again to find the outcome.
        let Ok(answer) = self.session.execute_unpaged(&self.change, values).await else {
            return false;
        };
        let answer = answer.into_rows_result().unwrap();
        let mut rows = answer.rows::<scylla::value::Row>().unwrap();
        let row = rows.next().unwrap().unwrap();
        row.columns[0]
            .as_ref()
            .and_then(scylla::value::CqlValue::as_boolean)
            == Some(true)
    }

    pub(crate) async fn drop_keyspace(&self, keyspace: &str) {
        super::driver::drop_keyspace(&self.session, keyspace).await;
    }

    /// Reads the current versions of the tickets with the given ids.
    pub(crate) async fn versions(&self, ids: impl Iterator<Item = i64>) -> Vec<i64> {
        join_all(ids.map(|id| async move { self.read(id).await.2 })).await
    }
}
