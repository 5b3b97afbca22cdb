//! Writes on stores where transactions move rows. A call is executed under the locks of its partitions. Rows of tables
//! that are kept in buckets go to their buckets, together with the other writes of the call.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use recto_model::Environment;
use recto_protocol::buckets::Bucket;
use recto_store::{
    Atomicity, Cas, CasOutcome, PartitionWrite, StoreError, TransactionOutcome, WriteOptions, WriteOutcome,
};

use super::BucketedStore;
use super::addresses::{Arrival, Arrivals, Call, Coming, Prerequisite};
use super::routed::Routed;
use crate::error::PiecesError;
use crate::limits::{MAX_ROOM_ATTEMPTS, MAX_ROOMS_AT_ONCE};
use crate::place::{Deadline, Place};
use crate::transacted::{Guard, Row, Transacted};

impl BucketedStore {
    /// Writes rows to their buckets.
    pub(super) async fn write_counted(
        &self,
        engine: &Transacted,
        plain: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        // The call needs no check here, because the store checks the writes that it receives.
        let call = Call {
            plain,
            ..Call::default()
        };
        let (routed, held, options) = match self.routed(engine, call, options).await {
            Ok(routed) => routed,
            Err(NotSent::Refused(error)) => return Ok(WriteOutcome::Refused(error)),
            Err(NotSent::Failed(error)) => return Err(error),
        };
        let Routed { call, numbers, .. } = routed;
        if call.plain.is_empty() {
            held.ended(true);
            return Ok(WriteOutcome::Done);
        }
        let durable = engine.relaxed_cuts(&options);
        let mut plain = call.plain;
        let one = if plain.len() == 1 { plain.pop() } else { None };
        let outcome = match one {
            Some(write) => self.inner.write(write, options).await,
            None => self.inner.write_many(plain, atomicity, options).await,
        };
        held.ended(!matches!(outcome, Ok(WriteOutcome::Unknown(_))));
        if matches!(outcome, Ok(WriteOutcome::Done | WriteOutcome::Counted(_))) {
            engine.are_durable(durable);
        }
        Ok(match outcome? {
            WriteOutcome::Conflict(number) => WriteOutcome::Conflict(numbers.before(number)),
            WriteOutcome::Counted(mut met) => {
                met.conflicts
                    .iter_mut()
                    .for_each(|number| *number = numbers.before(*number));
                WriteOutcome::Counted(met)
            }
            other => other,
        })
    }

    /// Changes several partitions if all conditions hold. Conditions and writes of tables in buckets go to the buckets
    /// of their rows.
    pub(super) async fn transact_counted(
        &self,
        engine: &Transacted,
        call: Call,
        options: WriteOptions,
    ) -> Result<TransactionOutcome, StoreError> {
        let limits = self.inner.limits();
        if let Err(error) = limits.check_transaction(&call.conditional, &call.plain, &options) {
            return Ok(TransactionOutcome::Refused(error));
        }
        let (routed, held, options) = match self.routed(engine, call, options).await {
            Ok(routed) => routed,
            Err(NotSent::Refused(error)) => return Ok(TransactionOutcome::Refused(error)),
            Err(NotSent::Failed(error)) => return Err(error),
        };
        let Routed {
            call,
            numbers,
            conditions,
        } = routed;
        let durable = engine.relaxed_cuts(&options);
        let outcome = self.inner.transact(call.conditional, call.plain, options).await;
        held.ended(!matches!(outcome, Ok(TransactionOutcome::Unknown(_))));
        if matches!(outcome, Ok(TransactionOutcome::Applied)) {
            engine.are_durable(durable);
        }
        Ok(match outcome? {
            TransactionOutcome::Conflict(number) => TransactionOutcome::Conflict(numbers.before(number)),
            TransactionOutcome::NotApplied { current } => TransactionOutcome::NotApplied {
                current: conditions.before(&current),
            },
            other => other,
        })
    }

    /// Changes one partition if its conditions hold.
    pub(super) async fn cas_counted(
        &self,
        engine: &Transacted,
        cas: Cas,
        options: WriteOptions,
    ) -> Result<CasOutcome, StoreError> {
        if let Err(error) = self.inner.limits().check_cas(&cas) {
            return Ok(CasOutcome::Refused(error));
        }
        let call = Call {
            conditional: vec![cas],
            ..Call::default()
        };
        let options = WriteOptions {
            row_by_row: false,
            ..options
        };
        Ok(match self.transact_counted(engine, call, options).await? {
            TransactionOutcome::Applied => CasOutcome::Applied,
            TransactionOutcome::NotApplied { mut current } => CasOutcome::NotApplied {
                current: current.pop().unwrap_or_default(),
            },
            TransactionOutcome::Unknown(error) => CasOutcome::Unknown(error),
            TransactionOutcome::Refused(error) => CasOutcome::Refused(error),
            TransactionOutcome::Conflict(_) => CasOutcome::Refused(StoreError::new(
                recto_store::StoreErrorKind::Conflict,
                "a row with this key exists already",
            )),
        })
    }

    /// Returns the call in the form for the store, and the locks that keep its partitions unchanged until the call is
    /// done.
    async fn routed(
        &self,
        engine: &Transacted,
        call: Call,
        options: WriteOptions,
    ) -> Result<(Routed, Held, WriteOptions), NotSent> {
        let addresses = self.addresses(&call).map_err(NotSent::Refused)?;
        let environment = &self.shared.environment;
        let deadline = Deadline::after(environment, options.timeout);
        let places = addresses.places.iter().map(|(place, _)| Arc::clone(place));
        let places: Vec<_> = places.collect();
        let mut attempts = 0;
        let (guard, buckets) = loop {
            let left = deadline.left(environment);
            let guard = engine.route(&places, left).await;
            let mut guard = guard.map_err(|error| NotSent::Failed(error.into()))?;
            let now_ms = environment.now_micros().div_euclid(1_000);
            let found = addresses.buckets(&guard);
            let found = found.and_then(|buckets| Ok((buckets, addresses.before(&guard, now_ms)?)));
            let (buckets, before) = match found {
                Ok(found) => found,
                Err(error) => {
                    guard.done();
                    return Err(NotSent::Refused(error));
                }
            };
            if let Some(before) = before {
                guard.done();
                prepare(engine, &places, before, (deadline, environment), options.relaxed).await?;
                continue;
            }
            let full = reserve(&mut guard, &places, &buckets.arrivals);
            attempts += 1;
            if full.is_empty() || attempts > MAX_ROOM_ATTEMPTS {
                break (guard, buckets);
            }
            guard.done();
            let rows = addresses.coming(&buckets, full);
            let made = tokio::time::timeout(
                deadline.left(environment) / 2,
                make_room(engine, &places, rows, options.relaxed),
            );
            if !matches!(made.await, Ok(true)) {
                // If no split can make room for the rows, stop trying: the call writes its rows
                // without reserved room.
                attempts = MAX_ROOM_ATTEMPTS;
            }
        };
        let routed = Routed::new(call, &addresses, &buckets, &guard);
        let held = Held {
            guard,
            places,
            arrivals: buckets.arrivals,
        };
        let timeout = deadline.left(environment).max(Duration::from_nanos(1));
        Ok((routed, held, WriteOptions { timeout, ..options }))
    }
}

/// Reserves room for the arriving rows. Returns the buckets that have too little room.
fn reserve(guard: &mut Guard, places: &[Arc<Place>], arrivals: &Arrivals) -> BTreeSet<(usize, Bucket)> {
    let has_none = |((place, bucket), arrival): &(&(usize, Bucket), &Arrival)| {
        !guard.reserve(&places[*place], *bucket, &arrival.arrived())
    };
    let full = arrivals.iter().filter(has_none);
    full.map(|(bucket, _)| *bucket).collect()
}

/// Does the work that must precede a call.
async fn prepare(
    engine: &Transacted,
    places: &[Arc<Place>],
    before: Prerequisite,
    (deadline, environment): (Deadline, &Environment),
    relaxed: bool,
) -> Result<(), NotSent> {
    let failed = |error: PiecesError| NotSent::Failed(error.into());
    match before {
        Prerequisite::Raise(place) => engine.retain(&place).await.map_err(failed),
        Prerequisite::Make(missing) => {
            for (place, missing) in &missing {
                let made = engine.make_missing(&places[*place], missing, relaxed).await;
                made.map_err(failed)?;
            }
            if deadline.left(environment).is_zero() {
                return Err(failed(PiecesError::out_of_time(None)));
            }
            Ok(())
        }
    }
}

/// Rows that arrive in buckets of one partition.
type ComingTo = Vec<(Bucket, Arc<Vec<Row>>)>;

/// Makes room for all rows, in all partitions concurrently. Returns whether another attempt to reserve room may
/// succeed.
async fn make_room(engine: &Transacted, places: &[Arc<Place>], coming: Coming, relaxed: bool) -> bool {
    let mut of_places: BTreeMap<usize, ComingTo> = BTreeMap::new();
    for ((place, bucket), rows) in coming {
        let rows = Arc::new(rows);
        of_places.entry(place).or_default().push((bucket, rows));
    }
    let making = of_places.into_iter().map(|(place, buckets)| async move {
        let mut made = false;
        for (bucket, rows) in buckets {
            // If a split fails, the call writes its rows without reserved room. A later check
            // splits the oversized bucket.
            let one = engine.make_room(&places[place], bucket, &rows, relaxed).await;
            made |= one.unwrap_or(false);
        }
        made
    });
    let making: Vec<_> = making.collect();
    let made = stream::iter(making).buffer_unordered(MAX_ROOMS_AT_ONCE);
    made.fold(false, |all, one| async move { all | one }).await
}

/// Reason why a call was not sent.
enum NotSent {
    Refused(StoreError),
    Failed(StoreError),
}

/// Locks of the partitions of a call.
struct Held {
    guard: Guard,
    places: Vec<Arc<Place>>,
    arrivals: Arrivals,
}

impl Held {
    /// Ends the call and releases the locks. If not `is_known`, some of the call may still be applied later, so the
    /// partitions stay in doubt.
    fn ended(self, is_known: bool) {
        for ((place, bucket), arrival) in &self.arrivals {
            self.guard
                .written(&self.places[*place], *bucket, &arrival.arrived());
        }
        if is_known {
            self.guard.done();
        }
    }
}
