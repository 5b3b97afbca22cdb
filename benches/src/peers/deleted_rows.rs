//! Peer: a naive queue on Cassandra that articles about Cassandra warn against. It has one row per
//! message, and deletes the row after the message is handled.

use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;

use crate::peers::driver::session;

/// Naive queue on Cassandra that deletes the row of each handled message.
pub(crate) struct DeletedRows {
    session: Session,
    put: PreparedStatement,
    first: PreparedStatement,
    delete: PreparedStatement,
}

impl DeletedRows {
    /// Connects to an existing keyspace, and creates the table of the queue.
    pub(crate) async fn make(address: &str, keyspace: &str) -> Self {
        let session = session(address, keyspace).await;
        let table = "CREATE TABLE IF NOT EXISTS deleted_rows (queue text, number bigint, body blob, PRIMARY KEY (queue, number))";
        session.query_unpaged(table, ()).await.unwrap();
        session.await_schema_agreement().await.unwrap();
        let prepare = async |text: &str| session.prepare(text).await.unwrap();
        Self {
            put: prepare("INSERT INTO deleted_rows (queue, number, body) VALUES ('jobs', ?, ?)").await,
            first: prepare("SELECT number, body FROM deleted_rows WHERE queue = 'jobs' LIMIT ?").await,
            delete: prepare("DELETE FROM deleted_rows WHERE queue = 'jobs' AND number = ?").await,
            session,
        }
    }

    /// Sends a message with the given number and body.
    pub(crate) async fn send(&self, number: i64, body: &[u8]) {
        self.session
            .execute_unpaged(&self.put, (number, body))
            .await
            .unwrap();
    }

    /// Returns the ids of the `count` oldest messages.
    ///
    /// # Errors
    /// The read met more tombstones (deletion markers) than Cassandra allows.
    pub(crate) async fn first(&self, count: i32) -> Result<Vec<i64>, String> {
        let read = self.session.execute_unpaged(&self.first, (count,)).await;
        let rows = read
            .map_err(|error| error.to_string())?
            .into_rows_result()
            .unwrap();
        let rows = rows.rows::<(i64, Vec<u8>)>().unwrap();
        Ok(rows.map(|row| row.unwrap().0).collect())
    }

    /// Deletes the row of a handled message.
    pub(crate) async fn delete(&self, number: i64) {
        self.session
            .execute_unpaged(&self.delete, (number,))
            .await
            .unwrap();
    }
}
