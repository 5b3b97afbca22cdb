//! Connects to keyspaces with attached tables: when a store is opened, and in the background while
//! they are unreachable.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use recto_model::schema::Schema;
use recto_store::Store;

use super::{Own, Recto};
use crate::error::{Error, ErrorKind, Result};
use crate::open;
use crate::reach::{REACH_INTERVAL, away};
use crate::shared::Shared;

/// Maximum time that opening a store waits for a keyspace. After this time, a background task tries
/// to reach the keyspace.
const REACH_TIME: Duration = Duration::from_secs(5);

impl Recto {
    /// Returns a weak reference for background tasks, which does not keep the store open.
    fn downgrade(&self) -> WeakRecto {
        (Arc::downgrade(&self.shared), Arc::downgrade(&self.own))
    }

    /// Returns the store if it is still open.
    fn upgrade((shared, own): &WeakRecto) -> Option<Self> {
        Some(Self {
            shared: shared.upgrade()?,
            own: own.upgrade()?,
        })
    }

    /// Checks the tables again after a keyspace was reached. The future is boxed, because the check
    /// can start the background task that calls this function. The type of the future would contain
    /// itself.
    fn look_at_tables_beside(&self) -> BoxFuture<'_, Result<()>> {
        self.look_at_tables(true).boxed()
    }

    /// Rejects a schema that has an attached table in an unreachable keyspace.
    pub(super) fn check_reached(&self, asked: &Schema) -> Result<()> {
        let away = self.own.reach.away();
        let mut tables = asked.collections.iter().filter_map(|one| one.attached.as_ref());
        let found = tables.find_map(|table| away.get(&table.keyspace));
        found.map_or(Ok(()), |away| {
            Err(Error::new(away.kind, away.message.clone())
                .with_hint("apply a schema without the attached collections, which then stay unchanged"))
        })
    }

    /// Reaches the new keyspaces that have attached tables, and waits for them. Marks the keyspaces
    /// whose address changed, which [`reach_beside`](Self::reach_beside) reaches later. The future
    /// is boxed, because the futures that it awaits are deeply nested.
    pub(super) fn reach_attached(&self) -> BoxFuture<'_, Result<()>> {
        self.reach_unknown().boxed()
    }

    async fn reach_unknown(&self) -> Result<()> {
        let schema = self.schema();
        let tables = schema.collections.iter().filter_map(|one| one.attached.as_ref());
        let keyspaces: BTreeSet<&str> = tables.map(|table| table.keyspace.as_str()).collect();
        if keyspaces.is_empty() {
            return Ok(());
        }
        let addresses = self.catalog().attached().await?;
        let tries = self.reach().unknown(&keyspaces, &addresses).into_iter();
        let tries = tries.map(async |(keyspace, address)| {
            let reaching = open::reach_recorded(address, &self.shared.environment, &self.own.options);
            let ended = tokio::time::timeout(REACH_TIME, reaching).await;
            let late = || Error::new(ErrorKind::Unavailable, "its nodes have not answered yet");
            let ended = ended.unwrap_or_else(|_| Err(away(keyspace, address, &late())));
            self.reach().tried(keyspace, address, ended);
        });
        futures::future::join_all(tries).await;
        Ok(())
    }

    /// Starts a background task that reaches unreachable keyspaces, unless the task already runs.
    /// The task does not keep the store open.
    pub(super) fn reach_beside(&self) {
        if self.reach().takes_task() {
            let (this, environment) = (self.downgrade(), self.shared.environment.clone());
            let options = self.own.options.clone();
            tokio::spawn(async move {
                while let Some(wanted) = wanted(&this) {
                    for (keyspace, address) in wanted {
                        let ended = open::reach_recorded(&address, &environment, &options).await;
                        took(&this, &keyspace, &address, ended).await;
                    }
                    tokio::time::sleep(REACH_INTERVAL).await;
                }
            });
        }
    }
}

/// Weak reference to an open store, which does not keep the store open.
type WeakRecto = (Weak<Shared>, Weak<Own>);

fn wanted(this: &WeakRecto) -> Option<Vec<(String, String)>> {
    let wanted = Recto::upgrade(this)?.reach().wanted();
    (!wanted.is_empty()).then_some(wanted)
}

async fn took(this: &WeakRecto, keyspace: &str, address: &str, ended: Result<Arc<dyn Store>>) {
    if let Some(recto) = Recto::upgrade(this) {
        recto.reach().tried(keyspace, address, ended);
        // Ignore a failed check of the store's own tables. The next read of the tables returns the
        // error.
        let _ = recto.look_at_tables_beside().await;
    }
}
