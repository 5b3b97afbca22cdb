//! Release of segments: removes a segment from the head (manifest) of its shard when all its
//! messages are resolved or purged.

use std::sync::Arc;

use recto_protocol::queues::{
    Head, Log, Origin, ReleaseAction, ReleaseEvent, Released, Releasing, State, StateCommand, StateResponse,
};

use crate::error::Result;
use crate::shard::Shard;
use crate::shard::segment::LiveSegment;

impl Shard {
    /// Releases a segment if all its messages are resolved. After a failure, the next operation that uses the
    /// segment tries again.
    pub(crate) async fn release_if_done(self: &Arc<Self>, segment: &LiveSegment) {
        if segment.is_done() {
            let _ = self.release(segment, false).await;
        }
    }

    /// Releases a segment (removes it from its shard) if all its messages are resolved. If `purges`
    /// is set, resolves the messages first.
    ///
    /// # Errors
    /// The store is unreachable, or stored data is damaged. Another call continues the release.
    pub(crate) async fn release(self: &Arc<Self>, segment: &LiveSegment, purges: bool) -> Result<Released> {
        let mut releasing = self.releasing(segment, purges);
        let mut event = ReleaseEvent::Begin;
        loop {
            event = match releasing.step(event) {
                ReleaseAction::Source(origin, command) => {
                    ReleaseEvent::Source(self.call_source(origin, command).await?)
                }
                ReleaseAction::State(command) => ReleaseEvent::State(segment.claims.call(command).await?),
                ReleaseAction::Head(command) => ReleaseEvent::Head(self.head.call(command).await?),
                ReleaseAction::Find(number) => ReleaseEvent::Found(self.find(number).await?),
                ReleaseAction::Over(released) => {
                    if released == Released::Done {
                        self.evict(segment.number);
                    }
                    return Ok(released);
                }
            };
        }
    }

    fn releasing(&self, segment: &LiveSegment, purges: bool) -> Releasing {
        let (address, protocol) = (self.address, self.context.protocol);
        let (no_log, no_state) = (Log::absent(), State::absent());
        segment.claims.with_cached(|state| {
            segment.log.with_cached(|log| {
                let (log, state) = (log.unwrap_or(&no_log), state.unwrap_or(&no_state));
                let begins = if purges {
                    Releasing::purging
                } else {
                    Releasing::new
                };
                begins(address, segment.number, log, state, protocol)
            })
        })
    }

    /// Sends a command to the state of the segment `origin`, from which a message was moved.
    pub(crate) async fn call_source(&self, origin: Origin, command: StateCommand) -> Result<StateResponse> {
        let source = self.all_shards.shard_at(origin.address);
        let is_gone =
            |head: &Head| head.ever_had(origin.segment) && !head.live().contains_key(&origin.segment);
        if source.head.with_cached(|head| head.is_some_and(is_gone)) {
            // A released segment never returns, so the cached head suffices. Without this check,
            // the head would be read for each message of a segment whose messages were moved
            // together.
            return Ok(StateResponse::Gone);
        }
        match source.find(origin.segment).await? {
            Some(live) => {
                let segment = source.segment(origin.segment, live);
                segment.claims.call(command).await
            }
            None => Ok(StateResponse::Gone),
        }
    }
}
