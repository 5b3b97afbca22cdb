//! Reads of logs, states and message bodies.

use std::sync::Arc;

use recto_model::Table;
use recto_protocol::queues::{BodyTable, Chunk, Entry, Live, Segment};
use recto_store::PointRead;

use crate::body_format::{Content, UnreadableBody};
use crate::context::{body_options, is_unknown_table};
use crate::error::{QueueError, QueueErrorKind, RESTORE_ALL, Result};
use crate::shard::Shard;
use crate::shard::segment::{LiveSegment, UnresolvedMessage};
use crate::tables::{body_clustering, body_partition};

/// Maximum number of times that a read of missing bodies is repeated, because the bodies may have been moved
/// to another table after the head was read.
const MAX_MOVES: u32 = 4;

impl Shard {
    /// Reads the log and the state of a segment into the cache, as far as they are not cached.
    ///
    /// # Errors
    /// The log or the state cannot be read. Or their versioned cells belong to a later segment, although the
    /// head still lists this segment.
    pub(crate) async fn load(&self, segment: &LiveSegment) -> Result<()> {
        segment.load(self.is_shared()).await?;
        if segment.is_overtaken() && self.find(segment.number).await?.is_some() {
            let message = "the tables of the queue are from different points in time: a listed segment is \
                           missing";
            return Err(QueueError::new(QueueErrorKind::Corrupt, message).with_hint(RESTORE_ALL));
        }
        Ok(())
    }

    /// Reads the log and the state of a segment, and returns its messages that are not resolved
    /// yet.
    pub(crate) async fn unresolved(
        &self,
        number: Segment,
        live: Live,
    ) -> Result<(Arc<LiveSegment>, Vec<UnresolvedMessage>)> {
        let segment = self.segment(number, live);
        self.load(&segment).await?;
        let unresolved = segment.unresolved().unwrap_or_default();
        Ok((segment, unresolved))
    }

    /// Reads the contents of messages of a segment, in the order of `messages`. Each content has its own
    /// result.
    ///
    /// # Errors
    /// The store is unreachable, or the bodies were moved from table to table during each read.
    pub(crate) async fn contents(
        &self,
        segment: Segment,
        live: Live,
        messages: &[(Chunk, Entry)],
    ) -> Result<Vec<std::result::Result<Content, UnreadableBody>>> {
        let mut contents = self.contents_in(live.table, segment, messages).await?;
        // Table and version of the ring in the head that was read before the last read of bodies. `live` is
        // from an older head, whose version is unknown.
        let mut before = None;
        let mut moves = 0;
        loop {
            let is_missing = |index: &usize| matches!(contents[*index], Err(UnreadableBody::Missing));
            let missing: Vec<_> = (0..contents.len()).filter(is_missing).collect();
            if missing.is_empty() || !self.context.has_ring() {
                return Ok(contents);
            }
            // The bodies may have been moved after the head was read, even away and back again. A move away
            // and back raises the version of the ring in the head. So the bodies are missing only if the head
            // has the same table and the same version before and after a read.
            let head = self.head.read().await?;
            let Some(live) = head.live().get(&segment) else {
                return Ok(contents);
            };
            let now = (live.table, head.ring());
            if before == Some(now) {
                return Ok(contents);
            }
            if moves == MAX_MOVES {
                return Err(moved_too_often());
            }
            before = Some(now);
            moves += 1;
            let again: Vec<_> = missing.iter().map(|index| messages[*index]).collect();
            let found = self.contents_in(live.table, segment, &again).await?;
            for (index, content) in missing.into_iter().zip(found) {
                contents[index] = content;
            }
        }
    }

    async fn contents_in(
        &self,
        table: BodyTable,
        segment: Segment,
        messages: &[(Chunk, Entry)],
    ) -> Result<Vec<std::result::Result<Content, UnreadableBody>>> {
        let Some(bodies) = self.bodies(table, segment, messages).await? else {
            return Ok(messages.iter().map(|_| Err(UnreadableBody::Missing)).collect());
        };
        let content = |body: Option<Vec<u8>>| Content::decode(&body.ok_or(UnreadableBody::Missing)?);
        Ok(bodies.into_iter().map(content).collect())
    }

    /// Reads the stored bodies of messages, in the order of `messages`. A body is `None` if it does not
    /// exist. The whole result is `None` if the table was dropped.
    pub(crate) async fn bodies(
        &self,
        table: BodyTable,
        segment: Segment,
        messages: &[(Chunk, Entry)],
    ) -> Result<Option<Vec<Option<Vec<u8>>>>> {
        let table = self.context.tables.bodies(table);
        let read = |(chunk, entry): &(Chunk, Entry)| PointRead {
            table: Arc::clone(&table),
            partition: body_partition(self.address, segment),
            clustering: body_clustering(*chunk, entry.index),
        };
        let reads: Vec<_> = messages.iter().map(read).collect();
        let snapshot = self.context.store.snapshot()?;
        let found = match snapshot.get_many(&reads, &body_options()).await {
            Err(error) if is_unknown_table(&error) && self.context.has_ring() => {
                if self.context.is_dropped(table.name()).await? {
                    return Ok(None);
                }
                return Err(unknown_table(&table).with_source(error));
            }
            found => found?,
        };
        let body = |found: recto_store::RowsRead| {
            let row = found.rows.iter().next()?;
            row.get(table.key_len()).map(<[u8]>::to_vec)
        };
        Ok(Some(found.into_iter().map(body).collect()))
    }

    /// Reads the content of one message of a segment. Returns `None` if its body is missing or
    /// damaged.
    pub(crate) async fn content(
        &self,
        segment: Segment,
        live: Live,
        chunk: Chunk,
        entry: Entry,
    ) -> Result<Option<Content>> {
        let mut contents = self.contents(segment, live, &[(chunk, entry)]).await?;
        match contents.pop().unwrap_or(Err(UnreadableBody::Missing)) {
            Ok(content) => Ok(Some(content)),
            Err(unread) if unread.is_lost() => Ok(None),
            Err(unread) => Err(unread.of(entry.id)),
        }
    }
}

/// Returns the error of a read that never found the table that had the bodies at that time.
fn moved_too_often() -> QueueError {
    let message = "message bodies were moved from table to table while they were read: nothing was done";
    QueueError::new(QueueErrorKind::Unavailable, message).with_hint("try again")
}

/// Returns the error of a read for which a node does not know an existing table yet.
fn unknown_table(table: &Table) -> QueueError {
    let name = table.name();
    let message = format!("a node does not know table {name} yet: nothing was done");
    QueueError::new(QueueErrorKind::Unavailable, message)
        .with_hint("try again: the node was down, and learns of the table soon")
}
