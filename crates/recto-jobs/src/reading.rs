//! Bodies are read.

use std::sync::Arc;

use recto_model::Table;
use recto_protocol::queues::{BodyTable, Chunk, Entry, Live, Segment};
use recto_store::PointRead;

use crate::bodies::{Content, Unread};
use crate::error::{QueueError, QueueErrorKind, RESTORE_ALL, Result};
use crate::place::{body_options, is_unknown};
use crate::segment::LiveSegment;
use crate::shard::Shard;
use crate::tables::{body_clustering, body_partition};

/// How often in a row bodies are looked for where they were moved to meanwhile.
const MAX_MOVES: u32 = 4;

impl Shard {
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
        let mut table = live.table;
        let mut contents = self.contents_in(table, segment, messages).await?;
        for moves in 0..MAX_MOVES {
            let is_missing = |index: &usize| matches!(contents[*index], Err(Unread::Missing));
            let missing: Vec<_> = (0..contents.len()).filter(is_missing).collect();
            if missing.is_empty() || !self.queues.has_ring() {
                break;
            }
            // They may have been moved to another table since the head was read, and back again.
            match self.find(segment).await? {
                Some(now) if now.table != table || moves == 0 => table = now.table,
                _ => break,
            }
            let again: Vec<_> = missing.iter().map(|index| messages[*index]).collect();
            let found = self.contents_in(table, segment, &again).await?;
            for (index, content) in missing.into_iter().zip(found) {
                contents[index] = content;
            }
        }
        Ok(contents)
    }

    async fn contents_in(
        &self,
        table: BodyTable,
        segment: Segment,
        messages: &[(Chunk, Entry)],
    ) -> Result<Vec<std::result::Result<Content, Unread>>> {
        let Some(bodies) = self.bodies(table, segment, messages).await? else {
            return Ok(messages.iter().map(|_| Err(Unread::Missing)).collect());
        };
        let content = |body: Option<Vec<u8>>| Content::decode(&body.ok_or(Unread::Missing)?);
        Ok(bodies.into_iter().map(content).collect())
    }

    /// The bodies of messages, as they are stored, in their order; of each none, if it is not there. None at all: the table was
    /// dropped.
    pub(crate) async fn bodies(
        &self,
        table: BodyTable,
        segment: Segment,
        messages: &[(Chunk, Entry)],
    ) -> Result<Option<Vec<Option<Vec<u8>>>>> {
        let table = self.queues.tables.bodies(table);
        let read = |(chunk, entry): &(Chunk, Entry)| PointRead {
            table: Arc::clone(&table),
            partition: body_partition(self.address, segment),
            clustering: body_clustering(*chunk, entry.index),
        };
        let reads: Vec<_> = messages.iter().map(read).collect();
        let snapshot = self.queues.store.snapshot()?;
        let found = match snapshot.get_many(&reads, &body_options()).await {
            Err(error) if is_unknown(&error) && self.queues.has_ring() => {
                if self.queues.is_dropped(table.name()).await? {
                    return Ok(None);
                }
                return Err(unheard_of(&table).with_source(error));
            }
            found => found?,
        };
        let body = |found: recto_store::RowsRead| {
            let row = found.rows.iter().next()?;
            row.get(table.key_len()).map(<[u8]>::to_vec)
        };
        Ok(Some(found.into_iter().map(body).collect()))
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

/// A node was asked that does not know a table which is there.
fn unheard_of(table: &Table) -> QueueError {
    let name = table.name();
    let message = format!("a node has not heard of table {name} yet: nothing was done");
    QueueError::new(QueueErrorKind::Unavailable, message)
        .with_hint("try again: it was away, and learns of it soon")
}
