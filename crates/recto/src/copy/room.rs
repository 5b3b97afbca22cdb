//! Splits of buckets in the target store before a copy, from a sample of all records. The copy waits once for
//! all splits, instead of in each step.

use super::Copying;
use super::record::{Record, Records};
use super::write::Target;
use crate::covered::Piece;
use crate::error::Result;
use crate::room::{MAX_ROOM_ROWS, ROOM_EACH, ROOM_FEWER, is_drawn, makes_room};

/// Maximum size of the sample in bytes.
const MAX_DRAWN_BYTES: usize = 64 << 20;

/// Sample of the records that are to be copied.
struct Drawn {
    records: Vec<Record>,
    bytes: usize,
    /// Number of records that each record of the sample represents.
    each: u32,
    /// Number of records that were read.
    seen: u64,
}

impl Copying<'_> {
    /// Splits the buckets of the target store in advance, for the uncopied records of the collection. If a
    /// split fails, the copy continues with the existing buckets.
    ///
    /// # Errors
    /// The source store cannot be read.
    pub(super) async fn make_room(&self, pieces: &[Piece]) -> Result<()> {
        if !makes_room(std::slice::from_ref(&self.target)) {
            return Ok(());
        }
        let mut drawn = Drawn {
            records: Vec::new(),
            bytes: 0,
            each: ROOM_EACH,
            seen: 0,
        };
        for piece in pieces.iter().filter(|piece| !piece.is_done) {
            self.draw(piece, &mut drawn).await?;
        }
        let Drawn { records, each, .. } = drawn;
        Target(&self.target).make_room(&records, each).await
    }

    async fn draw(&self, piece: &Piece, drawn: &mut Drawn) -> Result<()> {
        let mut after = piece.after.clone();
        loop {
            let read = self.read(&piece.range, after.as_ref()).await?;
            drawn.draw(Records::of(&self.source, &read)?);
            self.tell(read.rows.len() as u64, |_| {}).await;
            after = read.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }
}

impl Drawn {
    fn draw(&mut self, read: Records) {
        for record in read.0 {
            let is_drawn = is_drawn(self.seen, self.each);
            self.seen += 1;
            if is_drawn {
                self.bytes += record.cells.as_row().byte_len();
                self.records.push(record);
                if self.records.len() as u64 > MAX_ROOM_ROWS || self.bytes > MAX_DRAWN_BYTES {
                    self.leave_fewer();
                }
            }
        }
    }

    fn leave_fewer(&mut self) {
        let mut number = 0;
        self.records.retain(|_| {
            number += 1;
            is_drawn(number - 1, ROOM_FEWER)
        });
        self.bytes = self
            .records
            .iter()
            .map(|record| record.cells.as_row().byte_len())
            .sum();
        self.each = self.each.saturating_mul(ROOM_FEWER);
    }
}
