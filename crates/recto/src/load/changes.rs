//! Writes each row of a load as a separate change of a record. This serves collections whose
//! records change, on stores without transactions, and collections with unique fields. Many changes
//! are made concurrently.
//!
//! Each change uses the row's timestamp as the current time. This has three effects:
//!
//! - The last of several rows with one key wins.
//! - A resumed load recognizes the records that its earlier run has put.
//! - Changes that other clients made since the load began stay.

use futures::FutureExt;
use futures::stream::{self, StreamExt, TryStreamExt};
use recto_protocol::views::{Change, Micros, Refusal, Refused, Request, Version};
use recto_store::Stamp;

use super::convert::Reason;
use super::part::WholePart;
use super::whole::{Row, RowResult, StoredRow, Writing};
use super::write::{MAX_LOST, Part, Settled, busy};
use crate::error::{Error, ErrorKind, Result};
use crate::settle::patiently;
use crate::writes::{mutation, refused_by, transact};

/// Maximum number of concurrent changes for one part (a range of a collection's rows).
const MAX_CHANGES: usize = 64;

/// Maximum age in microseconds of the timestamp with which a row is put. It is long enough that a
/// load of some hours preserves changes by other clients. It is much shorter than the time for
/// which the store remembers deletions.
const MAX_EARLIER_MICROS: Micros = 24 * 3_600 * 1_000_000;

/// Result of writing a row, or the reason why the row is rejected.
type Became = std::result::Result<RowResult, Reason>;

impl WholePart<'_> {
    /// Writes each row of the part as a separate change of its record.
    pub(super) async fn change(&self) -> Result<Settled<Part>> {
        let (plan, shared) = (&self.writer.plan, &self.writer.shared);
        let (held, now) = (shared.held(), shared.environment.now_micros());
        let target = &plan.targets[self.chunk.target];
        let writing = Writing::new(target, self.viewed, &held.recorded, now);
        let earliest = Stamp(now.saturating_sub(MAX_EARLIER_MICROS));
        let rows = self.buffer.rows(self.chunk).map(|(row, origin)| {
            let mut row = writing.row(row, super::buffer::stamp(self.writer.stamp, origin));
            row.stamp = row.stamp.max(earliest);
            row
        });
        let rows: Vec<Row<'_>> = rows.collect();
        let changed: Vec<_> = rows.iter().map(|row| self.change_row(row, now).boxed()).collect();
        let became: Vec<Became> = stream::iter(changed).buffered(MAX_CHANGES).try_collect().await?;
        let (mut tally, mut refused) = (super::checkpoint::Tally::default(), Vec::new());
        for (number, (row, became)) in rows.iter().zip(became).enumerate() {
            match became {
                Ok(becomes) => writing.count(row, becomes, &mut tally),
                Err(reason) => {
                    let index = self.chunk.start + number;
                    refused.push(self.buffer.refuse(self.chunk.target, index, Some(reason)));
                }
            }
        }
        Ok(Settled::Done(Part::Whole(tally, refused)))
    }

    /// Stores a row by a change of its record. The first attempt assumes that no record exists.
    /// Later attempts depend on the stored record.
    async fn change_row(&self, row: &Row<'_>, now: Micros) -> Result<Became> {
        let core = self.core();
        let mut there: Option<StoredRow> = None;
        for _ in 0..MAX_LOST {
            let becomes = row.becomes(there.as_ref(), now);
            if row.stays(there.as_ref(), becomes) {
                return Ok(Ok(becomes));
            }
            match self.send_change(row, there.as_ref()).await {
                Ok(Ok(())) => return Ok(Ok(becomes)),
                Ok(Err(refused)) if matches!(refused.refusal, Refusal::Exists(_) | Refusal::Changed(_)) => {
                    there = self.look_at(row).await?;
                }
                Ok(Err(refused)) => {
                    let error = refused_by(core, &mutation::partition(core, &row.loaded), &refused);
                    return Ok(Err(Reason::general(error.message())));
                }
                Err(error) if is_of_record(error.kind()) => {
                    return Ok(Err(Reason::general(error.message())));
                }
                Err(error) => return Err(error),
            }
        }
        Err(busy())
    }

    /// Sends a put that replaces the stored record, or an insert if no record is stored.
    async fn send_change(
        &self,
        row: &Row<'_>,
        there: Option<&StoredRow>,
    ) -> Result<std::result::Result<(), Refused>> {
        let (core, shared) = (self.core(), &self.writer.shared);
        let (record, at) = (row.record.clone(), row.stamp.0);
        let there = there.filter(|there| there.record_at(at).is_some());
        let request = match there {
            None => Request {
                change: Change::Insert {
                    record,
                    expires_at: None,
                },
                if_version: None,
            },
            Some(there) => Request {
                change: Change::Put {
                    record,
                    expires_at: None,
                },
                if_version: Some(there.version),
            },
        };
        let partition = mutation::partition(core, &row.loaded);
        if shared.store.limits().transactions {
            return match transact(core, &partition, &request, Some(Version(at))).await {
                Ok(_) => Ok(Ok(())),
                // Report both errors as a changed record, because the caller then reads the stored
                // record and decides by it.
                Err(error) if matches!(error.kind(), ErrorKind::Exists | ErrorKind::Changed) => {
                    Ok(Err(Refusal::Changed(None).into()))
                }
                Err(error) => Err(stopped_unless_refused(error)),
            };
        }
        let key = core.key_of(&partition);
        let (name, time) = (&core.definition.name, self.writer.options.timeout);
        // Repeat the change if its outcome is unknown, because the repeated change determines the
        // outcome of the first one.
        let change = || async {
            let request = request.clone();
            let changed = shared.writer.change_at(at, name, key.clone(), request, time);
            Ok(changed.await?.map(drop))
        };
        let changed = patiently(&shared.environment, change).await;
        changed.map_err(stopped_unless_refused)
    }

    /// Reads the stored record with the key of a row.
    async fn look_at(&self, row: &Row<'_>) -> Result<Option<StoredRow>> {
        let read = self.read_of(&row.loaded);
        let snapshot = self.writer.shared.store.snapshot()?;
        self.there(&*snapshot, &read, &self.writer.shared.read_options())
            .await
    }
}

/// Adds to an error that the load has stopped, and a hint. Errors that concern a single record
/// remain unchanged.
fn stopped_unless_refused(error: Error) -> Error {
    if is_of_record(error.kind()) {
        return error;
    }
    stopped(error)
}

/// Returns whether an error of a change concerns its record, so that other rows can still be
/// loaded.
fn is_of_record(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::LimitExceeded | ErrorKind::InvalidRecord | ErrorKind::Conflict
    )
}

/// Converts an error to the error of a load that stops. Stored records remain, and running the same
/// load again continues after them.
#[cold]
fn stopped(error: Error) -> Error {
    Error::new(error.kind(), format!("the load stopped: {error}"))
        .with_hint("run the same load again to continue")
        .with_source(error)
}
