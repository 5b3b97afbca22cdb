//! A table that nothing refers to is emptied; one of which nobody knows whether it was, is dropped.

use recto_protocol::queues::{
    BodyTable, Emptied, Emptying, KeepAction, KeepEvent, Owner, Ring, RingAnswer, RingWish,
};
use recto_store::TableOutcome;

use crate::error::Result;
use crate::ring::Keeper;
use crate::ring::survey::Survey;

/// How often the ring is told what became of emptying a table.
const MAX_TELLINGS: u32 = 5;

impl Keeper {
    /// Empties a table, if nothing refers to it by what was read since this ring was.
    pub(crate) async fn empty(&self, ring: &Ring, survey: &Survey, table: BodyTable) -> Result<()> {
        let owner = Owner(self.queues.random());
        let mut emptying = Emptying::new(table, owner, self.queues.protocol);
        let mut event = KeepEvent::Begin;
        loop {
            event = match emptying.step(event) {
                KeepAction::ReadRing => KeepEvent::Ring(ring.clone()),
                KeepAction::CountReferences(table) => KeepEvent::References(survey.references(table).len()),
                KeepAction::Ring(wish) => KeepEvent::RingAnswer(self.ask_until_known(wish).await?),
                KeepAction::Empty(table) => KeepEvent::Emptied(self.send(table).await),
                _ => return Ok(()),
            };
        }
    }

    /// What became of emptying is said again if the ring did not hear it: otherwise the table would be given up.
    async fn ask_until_known(&self, wish: RingWish) -> Result<RingAnswer> {
        let mut asked = 1;
        loop {
            match self.ask(wish).await {
                Err(_) if asked < MAX_TELLINGS && matches!(wish, RingWish::Emptied(..)) => asked += 1,
                answer => return answer,
            }
        }
    }

    /// Sends it once, and never again.
    async fn send(&self, table: BodyTable) -> Emptied {
        let table = self.queues.tables.bodies(table);
        match self.queues.store.empty_table(&table).await {
            Ok(TableOutcome::Done) => Emptied::Done,
            Ok(TableOutcome::Unknown(_)) => Emptied::Unknown,
            Err(error) => {
                self.stands_still(&error.into());
                Emptied::NotDone
            }
        }
    }

    /// Drops a retired table.
    pub(crate) async fn drop_retired(&self, table: BodyTable) -> Result<()> {
        let name = self.queues.tables.bodies(table);
        match self.queues.store.drop_table(name.name()).await? {
            TableOutcome::Done => self.ask(RingWish::Dropped(table)).await.map(drop),
            // Somebody does it again.
            TableOutcome::Unknown(_) => Ok(()),
        }
    }

    /// One table more, of the next number.
    pub(crate) async fn grow(&self, ring: &Ring) -> Result<RingAnswer> {
        let Some(next) = ring.next() else {
            return Ok(RingAnswer::Full);
        };
        self.queues.make(&self.queues.tables.bodies(next)).await?;
        self.ask(RingWish::Add(next)).await
    }
}
