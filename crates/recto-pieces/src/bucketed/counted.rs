//! Writes where transactions move rows: what is in buckets goes to those that take it, under one lock, with what else is in
//! the call.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use recto_buckets::{Bucket, Key};
use recto_model::{Cells, Table};
use recto_store::{
    Atomicity, Cas, CasOutcome, Mutation, Operation, PartitionWrite, RowAddress, StoreError,
    TransactionOutcome, WriteOptions, WriteOutcome,
};

use super::routed::Routed;
use super::tables::Bucketed;
use super::{BucketedStore, not_in_buckets};
use crate::limits::MAX_ROOM_ATTEMPTS;
use crate::place::{Deadline, Place};
use crate::transacted::{Arrived, Guard, Transacted};

/// A call of several writes.
#[derive(Debug, Default)]
pub(super) struct Call {
    pub(super) conditional: Vec<Cas>,
    pub(super) plain: Vec<PartitionWrite>,
}

/// Where the rows of a write lie, if its table is kept in buckets.
#[derive(Debug)]
pub(super) struct Address {
    /// Which of the call's places it is of.
    pub(super) place: usize,
    /// The keys of its mutations.
    pub(super) mutations: Vec<Key>,
    /// The keys of its conditions.
    pub(super) conditions: Vec<Key>,
}

/// Where all rows of a call lie.
#[derive(Default)]
pub(super) struct Addresses {
    pub(super) places: Vec<(Arc<Place>, Arc<Bucketed>)>,
    pub(super) conditional: Vec<Option<Address>>,
    pub(super) plain: Vec<Option<Address>>,
}

/// Rows that a call puts into one bucket.
#[derive(Debug, Default)]
pub(super) struct Arrival {
    least: Key,
    most: Key,
    rows: u64,
    bytes: u64,
}

/// Rows that come into buckets, by their keys, and their bytes.
type Coming = BTreeMap<(usize, Bucket), Vec<(Key, u64)>>;

/// The buckets that a call puts rows into: of a place by its number.
pub(super) type Arrivals = BTreeMap<(usize, Bucket), Arrival>;

impl BucketedStore {
    /// Writes what is in buckets to those that take it.
    pub(super) async fn write_counted(
        &self,
        engine: &Transacted,
        plain: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        // The store checks what it gets.
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

    /// Changes several partitions if all conditions hold, those in buckets where their rows lie.
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
                "another row of this key is there",
            )),
        })
    }

    /// The call as the store gets it, and what holds its partitions as they are until that is done.
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
        let (guard, buckets, arrivals) = loop {
            let left = deadline.left(environment);
            let guard = engine.route(&places, left).await;
            let mut guard = guard.map_err(|error| NotSent::Failed(error.into()))?;
            let buckets = match addresses.buckets(&guard) {
                Ok(buckets) => buckets,
                Err(error) => {
                    guard.done();
                    return Err(NotSent::Refused(error));
                }
            };
            let arrivals = addresses.arrivals(&call, &buckets);
            let full = reserve(&mut guard, &places, &arrivals);
            attempts += 1;
            if full.is_empty() || attempts > MAX_ROOM_ATTEMPTS {
                break (guard, buckets, arrivals);
            }
            guard.done();
            let rows = addresses.coming(&call, &buckets, full);
            let made = tokio::time::timeout(
                deadline.left(environment) / 2,
                make_room(engine, &places, rows, options.relaxed),
            );
            if !matches!(made.await, Ok(true)) {
                // Where no room can be made there is as much as there was.
                attempts = MAX_ROOM_ATTEMPTS;
            }
        };
        let routed = Routed::new(call, &addresses, &buckets, &guard);
        let held = Held {
            guard,
            places,
            arrivals,
        };
        let timeout = deadline.left(environment).max(Duration::from_nanos(1));
        Ok((routed, held, WriteOptions { timeout, ..options }))
    }

    /// Where the rows of a call lie in the order of their partitions.
    fn addresses(&self, call: &Call) -> Result<Addresses, StoreError> {
        let mut addresses = Addresses::default();
        let mut numbers = HashMap::new();
        for cas in &call.conditional {
            let mut address = None;
            if let Some(place) = self.place_of(&mut addresses, &mut numbers, &cas.table, &cas.partition)? {
                let (of, bucketed) = &addresses.places[place];
                let rows = cas.conditions.iter().map(|condition| match &condition.row {
                    RowAddress::Row(row) => Ok(row.clone()),
                    RowAddress::Static => Err(not_in_buckets(&bucketed.logical, "has no static columns")),
                });
                address = Some(Address {
                    place,
                    mutations: keys_of(of, bucketed, &cas.mutations)?,
                    conditions: rows
                        .map(|row| Ok(of.key(&row?)?))
                        .collect::<Result<_, StoreError>>()?,
                });
            }
            addresses.conditional.push(address);
        }
        for write in &call.plain {
            let mut address = None;
            if let Some(place) =
                self.place_of(&mut addresses, &mut numbers, &write.table, &write.partition)?
            {
                let (of, bucketed) = &addresses.places[place];
                address = Some(Address {
                    place,
                    mutations: keys_of(of, bucketed, &write.mutations)?,
                    conditions: Vec::new(),
                });
            }
            addresses.plain.push(address);
        }
        Ok(addresses)
    }

    /// The number of a partition among the places of a call; none: it is not kept in buckets.
    fn place_of<'c>(
        &self,
        addresses: &mut Addresses,
        numbers: &mut HashMap<(*const Table, &'c Cells), usize>,
        table: &'c Arc<Table>,
        partition: &'c Cells,
    ) -> Result<Option<usize>, StoreError> {
        let Some(bucketed) = self.bucketed(table)? else {
            return Ok(None);
        };
        let address = (Arc::as_ptr(table), partition);
        if let Some(number) = numbers.get(&address) {
            return Ok(Some(*number));
        }
        let number = addresses.places.len();
        let place = Place::new(&bucketed.pieced, partition.clone())?;
        addresses.places.push((Arc::new(place), bucketed));
        numbers.insert(address, number);
        Ok(Some(number))
    }
}

/// The keys of the rows that these write.
fn keys_of(place: &Place, bucketed: &Bucketed, mutations: &[Mutation]) -> Result<Vec<Key>, StoreError> {
    let keys = mutations.iter().map(|mutation| match mutation.operation.row() {
        Some(row) => Ok(place.key(row)?),
        None => Err(not_in_buckets(&bucketed.logical, "is written row by row")),
    });
    keys.collect()
}

/// In which buckets the rows of a call lie, in the order of its addresses.
pub(super) struct Buckets {
    pub(super) conditional: Vec<AddressBuckets>,
    pub(super) plain: Vec<AddressBuckets>,
}

/// Of mutations, and of conditions.
#[derive(Default)]
pub(super) struct AddressBuckets {
    pub(super) mutations: Vec<Bucket>,
    pub(super) conditions: Vec<Bucket>,
}

impl Addresses {
    fn buckets(&self, guard: &Guard) -> Result<Buckets, StoreError> {
        let of = |place: usize, keys: &[Key]| -> Result<Vec<Bucket>, StoreError> {
            let place = &self.places[place].0;
            let buckets = keys.iter().map(|key| Ok(guard.bucket_of(place, key)?));
            buckets.collect()
        };
        let all = |addresses: &[Option<Address>]| -> Result<Vec<AddressBuckets>, StoreError> {
            let each = addresses.iter().map(|address| match address {
                None => Ok(AddressBuckets::default()),
                Some(address) => Ok(AddressBuckets {
                    mutations: of(address.place, &address.mutations)?,
                    conditions: of(address.place, &address.conditions)?,
                }),
            });
            each.collect()
        };
        Ok(Buckets {
            conditional: all(&self.conditional)?,
            plain: all(&self.plain)?,
        })
    }

    /// What comes into which bucket.
    fn arrivals(&self, call: &Call, buckets: &Buckets) -> Arrivals {
        let mut arrivals = Arrivals::new();
        self.each_put(call, buckets, |place, bucket, key, bytes| {
            arrivals.entry((place, bucket)).or_default().add(key, bytes);
        });
        arrivals
    }

    /// The rows that come into these buckets, in the order of their keys, each once.
    fn coming(&self, call: &Call, buckets: &Buckets, into: BTreeSet<(usize, Bucket)>) -> Coming {
        let mut coming: Coming = into.into_iter().map(|bucket| (bucket, Vec::new())).collect();
        self.each_put(call, buckets, |place, bucket, key, bytes| {
            if let Some(rows) = coming.get_mut(&(place, bucket)) {
                rows.push((key.clone(), bytes));
            }
        });
        for rows in coming.values_mut() {
            rows.sort_unstable();
            rows.dedup_by(|later, row| later.0 == row.0);
        }
        coming
    }

    /// Says of each row that is put where it comes.
    fn each_put(&self, call: &Call, buckets: &Buckets, mut say: impl FnMut(usize, Bucket, &Key, u64)) {
        let conditional = call.conditional.iter().map(|cas| &cas.mutations);
        let conditional = conditional.zip(&self.conditional).zip(&buckets.conditional);
        let plain = call.plain.iter().map(|write| &write.mutations);
        let plain = plain.zip(&self.plain).zip(&buckets.plain);
        for ((mutations, address), buckets) in conditional.chain(plain) {
            let Some(address) = address else { continue };
            let rows = mutations.iter().zip(&address.mutations);
            for ((mutation, key), bucket) in rows.zip(&buckets.mutations) {
                if let Some(bytes) = bytes_of(mutation) {
                    say(address.place, *bucket, key, bytes);
                }
            }
        }
    }
}

impl Arrival {
    fn arrived(&self) -> Arrived<'_> {
        Arrived {
            least: &self.least,
            most: &self.most,
            rows: self.rows,
            bytes: self.bytes,
        }
    }

    fn add(&mut self, key: &Key, bytes: u64) {
        if self.rows == 0 || *key < self.least {
            self.least.clone_from(key);
        }
        if self.rows == 0 || *key > self.most {
            self.most.clone_from(key);
        }
        self.rows += 1;
        self.bytes += bytes;
    }
}

/// Bytes of what a mutation puts; none: it puts nothing.
fn bytes_of(mutation: &Mutation) -> Option<u64> {
    match &mutation.operation {
        Operation::Put {
            clustering, cells, ..
        }
        | Operation::Patch {
            clustering, cells, ..
        } => Some((clustering.byte_len() + cells.byte_len()) as u64),
        _ => None,
    }
}

/// Reserves room for all that comes; where there is too little, so that there is none for the call.
fn reserve(guard: &mut Guard, places: &[Arc<Place>], arrivals: &Arrivals) -> BTreeSet<(usize, Bucket)> {
    let has_none = |((place, bucket), arrival): &(&(usize, Bucket), &Arrival)| {
        !guard.reserve(&places[*place], *bucket, &arrival.arrived())
    };
    let full = arrivals.iter().filter(has_none);
    full.map(|(bucket, _)| *bucket).collect()
}

/// Makes room for all of these; whether there may be more of it.
async fn make_room(engine: &Transacted, places: &[Arc<Place>], coming: Coming, relaxed: bool) -> bool {
    let mut made = false;
    for ((place, bucket), rows) in coming {
        // Who cannot cut writes where there is too little room: what is too large is looked at again.
        let one = engine.make_room(&places[place], bucket, &rows, relaxed).await;
        made |= one.unwrap_or(false);
    }
    made
}

/// Why a call was not sent.
enum NotSent {
    Refused(StoreError),
    Failed(StoreError),
}

/// What holds the partitions of a call as they are.
struct Held {
    guard: Guard,
    places: Vec<Arc<Place>>,
    arrivals: Arrivals,
}

impl Held {
    /// The call has ended; `is_known`: nothing of it comes later.
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
