//! Peer: records with one unique field in Cassandra, inserted by two conditional statements of the
//! driver, without Recto.

use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;

use crate::peers::driver::{conditional, session};

/// Connection to Cassandra with two prepared inserts: of a unique email address, and of its user.
pub(crate) struct PairByHand {
    session: Session,
    claim: PreparedStatement,
    insert: PreparedStatement,
}

impl PairByHand {
    /// Connects to an existing keyspace, creates the tables, and prepares the inserts.
    pub(crate) async fn connect(address: &str, keyspace: &str) -> Self {
        let session = session(address, keyspace).await;
        for table in [
            "hand_emails (email text PRIMARY KEY, id int)",
            "hand_users (id int PRIMARY KEY, email text, name text)",
        ] {
            let text = format!("CREATE TABLE IF NOT EXISTS {table}");
            session.query_unpaged(text, ()).await.unwrap();
        }
        session.await_schema_agreement().await.unwrap();
        let prepare = async |text: &str| conditional(&session, text).await;
        Self {
            claim: prepare("INSERT INTO hand_emails (email, id) VALUES (?, ?) IF NOT EXISTS").await,
            insert: prepare("INSERT INTO hand_users (id, email, name) VALUES (?, ?, ?) IF NOT EXISTS").await,
            session,
        }
    }

    /// Inserts the email address of a user if it does not exist yet, and then the user's record.
    pub(crate) async fn insert(&self, id: i32) {
        let email = format!("{id}@example.org");
        let claim = self.session.execute_unpaged(&self.claim, (&email, id));
        claim.await.unwrap();
        let insert = self.session.execute_unpaged(&self.insert, (id, &email, "Ada"));
        insert.await.unwrap();
    }
}
