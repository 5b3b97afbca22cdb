//! Emptying of body tables that no live segment refers to. If the outcome of emptying is unknown,
//! the table is dropped.

use recto_protocol::queues::{
    BodyTable, Emptied, Emptying, KeepAction, KeepEvent, Owner, Ring, RingCommand, RingResponse,
};
use recto_store::TableOutcome;

use crate::error::Result;
use crate::table_recycling::TableRecycler;
use crate::table_recycling::references::TableReferences;

/// Maximum number of attempts to record the outcome of emptying in the ring of body tables.
const MAX_RECORD_ATTEMPTS: u32 = 5;

impl TableRecycler {
    /// Empties a body table if no live segment refers to it. The caller must have read `references` after `ring`.
    pub(crate) async fn empty(
        &self,
        ring: &Ring,
        references: &TableReferences,
        table: BodyTable,
    ) -> Result<()> {
        let owner = Owner(self.context.random());
        let mut emptying = Emptying::new(table, owner, self.context.protocol);
        let mut event = KeepEvent::Begin;
        loop {
            event = match emptying.step(event) {
                KeepAction::ReadRing => KeepEvent::Ring(ring.clone()),
                KeepAction::CountReferences(table) => {
                    KeepEvent::References(references.segments_in(table).len())
                }
                KeepAction::Ring(command) => KeepEvent::RingResponse(self.call_until_known(command).await?),
                KeepAction::Empty(table) => KeepEvent::Emptied(self.empty_table(table).await),
                _ => return Ok(()),
            };
        }
    }

    /// Sends a command to the ring of body tables. Repeats the command that records the outcome of
    /// emptying, because a table without that record is retired (dropped, and never used again).
    async fn call_until_known(&self, command: RingCommand) -> Result<RingResponse> {
        let mut asked = 1;
        loop {
            match self.call(command).await {
                Err(_) if asked < MAX_RECORD_ATTEMPTS && matches!(command, RingCommand::Emptied(..)) => {
                    asked += 1;
                }
                response => return response,
            }
        }
    }

    /// Sends the request to empty the table. The request is sent once and never repeated.
    async fn empty_table(&self, table: BodyTable) -> Emptied {
        let table = self.context.tables.bodies(table);
        match self.context.store.empty_table(&table).await {
            Ok(TableOutcome::Done) => Emptied::Done,
            Ok(TableOutcome::Unknown(_)) => Emptied::Unknown,
            Err(error) => {
                self.record_obstacle(&error.into());
                Emptied::NotDone
            }
        }
    }

    pub(crate) async fn drop_retired(&self, table: BodyTable) -> Result<()> {
        let name = self.context.tables.bodies(table);
        match self.context.store.drop_table(name.name()).await? {
            TableOutcome::Done => self.call(RingCommand::Dropped(table)).await.map(drop),
            // The table may not have been dropped, so a later run tries again.
            TableOutcome::Unknown(_) => Ok(()),
        }
    }
}
