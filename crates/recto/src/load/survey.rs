//! Samples the whole file before its first row is loaded. Splits of buckets (partitions of a table)
//! take long on some stores. With the sample, the load waits once for all splits, instead of
//! waiting for each buffer.

use std::sync::Arc;

use recto_store::Limits;

use super::buffer::Buffer;
use super::pipeline::{CancelOnDrop, Cancelled, blocking};
use super::plan::LoadPlan;
use super::records::{RecordBatch, Splitter};
use super::room::Sampled;
use super::rows::Converter;
use super::source::{Format, Source};
use crate::error::Result;
use crate::room::{MAX_ROOM_ROWS, ROOM_EACH, ROOM_FEWER, is_drawn};

/// Divisor of the size of a full buffer, which gives the maximum size of a sample.
const DRAWN_SHARE: usize = 4;

/// Sampler of the rows of a file, before the file is loaded.
pub(super) struct Survey {
    pub(super) source: Arc<Source>,
    pub(super) plan: Arc<LoadPlan>,
    pub(super) limits: Limits,
    /// Number of rows at the beginning of the file that an earlier run of the load has processed.
    /// The sample skips them.
    pub(super) rows_done: u64,
    /// Size in bytes of a full buffer of rows. The sample may take a share of this size.
    pub(super) full_bytes: usize,
}

impl Survey {
    /// Returns a sample of the rows that remain to be loaded, in key order.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) async fn rows(self) -> Result<Sampled> {
        let guard = CancelOnDrop::default();
        let cancelled = guard.cancelled();
        blocking(move || {
            let mut each = ROOM_EACH;
            loop {
                if let Some(mut buffer) = self.drawn(each, &cancelled)? {
                    buffer.sort();
                    let buffer = Arc::new(buffer);
                    return Ok(Sampled {
                        buffer,
                        step: 1,
                        each,
                    });
                }
                each = each.saturating_mul(ROOM_FEWER);
            }
        })
        .await
    }

    /// Samples one of each `each` consecutive rows of the file. Returns `None` if the sample has
    /// too many rows or bytes.
    fn drawn(&self, each: u32, cancelled: &Cancelled) -> Result<Option<Buffer>> {
        let mut drawing = Drawing {
            survey: self,
            converter: Converter::new(Arc::clone(&self.plan), self.limits),
            buffer: Buffer::new(&self.plan),
            each,
            row: 0,
        };
        let mut has_room = true;
        self.source.read_with(&Arc::default(), |format, input| {
            let mut splitter = Splitter::new(format, self.plan.dialect);
            let mut is_header = format == Format::Csv;
            let failed = |error| self.source.read_error(error);
            while has_room && !cancelled.is_set() {
                let Some(batch) = splitter.next_batch(input).map_err(failed)? else {
                    break;
                };
                drawing.draw(&batch, usize::from(is_header));
                is_header = false;
                has_room = drawing.has_room();
            }
            Ok(())
        })?;
        Ok(has_room.then_some(drawing.buffer))
    }
}

struct Drawing<'s> {
    survey: &'s Survey,
    converter: Converter,
    buffer: Buffer,
    each: u32,
    /// Index of the next row in the file, from 0, without the header.
    row: u64,
}

impl Drawing<'_> {
    fn draw(&mut self, batch: &RecordBatch, skipped: usize) {
        for record in &batch.records[skipped..] {
            if self.row >= self.survey.rows_done && is_drawn(self.row, self.each) {
                self.converter
                    .convert(&batch.text, record, self.row, &mut self.buffer);
            }
            self.row += 1;
        }
    }

    fn has_room(&self) -> bool {
        self.buffer.entries() <= MAX_ROOM_ROWS
            && self.buffer.byte_len() <= self.survey.full_bytes / DRAWN_SHARE
    }
}
