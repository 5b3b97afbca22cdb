//! Bodies are read.

use std::sync::Arc;

use recto_queue::{Chunk, Entry, Live, Segment};
use recto_store::PointRead;

use crate::bodies::Content;
use crate::error::{QueueError, QueueErrorKind, Result};
use crate::place::body_options;
use crate::shard::Inner;
use crate::tables::{body_clustering, body_partition};

impl Inner {
    /// What messages of a segment say, in their order; of each by itself whether that can be read.
    pub(crate) async fn contents(
        &self,
        segment: Segment,
        live: Live,
        messages: &[(Chunk, Entry)],
    ) -> Result<Vec<Result<Content>>> {
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
        let content = |(found, (_, entry)): (recto_store::RowsRead, &(Chunk, Entry))| {
            let row = found.rows.iter().next();
            match row.and_then(|row| row.get(table.key_len())) {
                Some(body) => Content::decode(body),
                None => Err(missing(entry)),
            }
        };
        Ok(found.into_iter().zip(messages).map(content).collect())
    }

    /// The same of one.
    pub(crate) async fn content(
        &self,
        segment: Segment,
        live: Live,
        chunk: Chunk,
        entry: Entry,
    ) -> Result<Content> {
        let mut contents = self.contents(segment, live, &[(chunk, entry)]).await?;
        contents.pop().unwrap_or_else(|| Err(missing(&entry)))
    }
}

fn missing(entry: &Entry) -> QueueError {
    let message = format!("the body of message {:032x} is missing", entry.id.0);
    QueueError::new(QueueErrorKind::Corrupt, message)
        .with_hint("something else than Recto wrote to the tables of bodies: restore them from a backup")
}
