//! Bodies are read.

use std::sync::Arc;

use recto_queue::{Chunk, Entry, Live, Segment};
use recto_store::PointRead;

use crate::bodies::{Content, Unread};
use crate::error::{QueueError, QueueErrorKind, RESTORE_ALL, Result};
use crate::place::body_options;
use crate::segment::LiveSegment;
use crate::shard::Inner;
use crate::tables::{body_clustering, body_partition};

impl Inner {
    /// Reads log and state of a segment, as far as they are not known.
    ///
    /// # Errors
    /// They cannot be read; or a later segment has them, and the head still names this one.
    pub(crate) async fn load(&self, segment: &LiveSegment) -> Result<()> {
        segment.load(self.is_shared()).await?;
        if segment.is_overtaken() && self.find(segment.number).await?.is_some() {
            let message = "what is stored of the queue is not of one time: a segment of its list is gone";
            return Err(QueueError::new(QueueErrorKind::Corrupt, message).with_hint(RESTORE_ALL));
        }
        Ok(())
    }

    /// What messages of a segment say, in their order; of each by itself whether that can be read.
    pub(crate) async fn contents(
        &self,
        segment: Segment,
        live: Live,
        messages: &[(Chunk, Entry)],
    ) -> Result<Vec<std::result::Result<Content, Unread>>> {
        let table = self.queues.tables.bodies(live.table);
        let read = |(chunk, entry): &(Chunk, Entry)| PointRead {
            table: Arc::clone(&table),
            partition: body_partition(self.address, segment),
            clustering: body_clustering(*chunk, entry.index),
        };
        let reads: Vec<_> = messages.iter().map(read).collect();
        let found = self
            .queues
            .store
            .snapshot()?
            .get_many(&reads, &body_options())
            .await?;
        let content = |found: recto_store::RowsRead| {
            let row = found.rows.iter().next();
            let body = row.and_then(|row| row.get(table.key_len()));
            Content::decode(body.ok_or(Unread::Missing)?)
        };
        Ok(found.into_iter().map(content).collect())
    }

    /// What one message says; none: its body is lost.
    pub(crate) async fn content(
        &self,
        segment: Segment,
        live: Live,
        chunk: Chunk,
        entry: Entry,
    ) -> Result<Option<Content>> {
        let mut contents = self.contents(segment, live, &[(chunk, entry)]).await?;
        match contents.pop().unwrap_or(Err(Unread::Missing)) {
            Ok(content) => Ok(Some(content)),
            Err(unread) if unread.is_lost() => Ok(None),
            Err(unread) => Err(unread.of(entry.id)),
        }
    }
}
