//! Keys of the rows of a call, and their buckets.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use recto_model::{Cells, Table};
use recto_protocol::buckets::{Bucket, Key};
use recto_store::{Cas, Mutation, Operation, PartitionWrite, RowAddress, StoreError};

use super::tables::Bucketed;
use super::{BucketedStore, not_in_buckets};
use crate::place::Place;
use crate::transacted::{Arrived, Guard, Missing, Row};

/// Work that must precede a call.
pub(super) enum Prerequisite {
    /// The retention bound of a partition must be raised.
    Raise(Arc<Place>),
    /// Time buckets must be created, by the number of the partition in the call.
    Make(BTreeMap<usize, Missing>),
}

/// Call with several writes.
#[derive(Debug, Default)]
pub(super) struct Call {
    pub(super) conditional: Vec<Cas>,
    pub(super) plain: Vec<PartitionWrite>,
}

/// Partitions and keys of all rows of a call.
#[derive(Default)]
pub(super) struct Addresses {
    pub(super) places: Vec<(Arc<Place>, Arc<Bucketed>)>,
    pub(super) conditional: Vec<Option<Address>>,
    pub(super) plain: Vec<Option<Address>>,
}

/// Partition and keys of the rows of one write to a table that is kept in buckets.
#[derive(Debug)]
pub(super) struct Address {
    /// Index of the partition in [`Addresses::places`].
    pub(super) place: usize,
    mutations: Rows,
    conditions: Vec<Key>,
}

/// Keys of rows, one after the other. For each row, the end of its key, and the number of its bytes if it is put.
#[derive(Debug, Default)]
struct Rows {
    keys: Vec<u8>,
    rows: Vec<(usize, Option<u32>)>,
}

/// Buckets of the rows of a call, in the order of its addresses.
#[derive(Default)]
pub(super) struct Buckets {
    pub(super) conditional: Vec<AddressBuckets>,
    pub(super) plain: Vec<AddressBuckets>,
    /// Rows that arrive in each bucket.
    pub(super) arrivals: Arrivals,
}

/// Buckets of mutations and of conditions.
#[derive(Default)]
pub(super) struct AddressBuckets {
    pub(super) mutations: Vec<Run>,
    pub(super) conditions: Vec<Bucket>,
}

/// Consecutive mutations whose rows are in the same bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// The bucket, or `None` if the mutations are skipped because their rows are below the retention bound.
    pub(super) bucket: Option<Bucket>,
    pub(super) mutations: usize,
}

/// Rows that a call puts into one bucket.
#[derive(Debug, Default)]
pub(super) struct Arrival {
    least: Key,
    most: Key,
    rows: u64,
    bytes: u64,
}

/// Rows that a call puts into each bucket, by the index of the partition.
pub(super) type Arrivals = BTreeMap<(usize, Bucket), Arrival>;

/// Keys and sizes of the rows that arrive in each bucket.
pub(super) type Coming = BTreeMap<(usize, Bucket), Vec<Row>>;

impl BucketedStore {
    /// Returns the partitions and keys of all rows of a call.
    pub(super) fn addresses(&self, call: &Call) -> Result<Addresses, StoreError> {
        let mut addresses = Addresses::default();
        let mut numbers = HashMap::new();
        for cas in &call.conditional {
            let mut address = None;
            if let Some(place) = self.place_of(&mut addresses, &mut numbers, &cas.table, &cas.partition)? {
                let (of, bucketed) = &addresses.places[place];
                let rows = cas.conditions.iter().map(|condition| match &condition.row {
                    RowAddress::Row(row) => Ok(of.key(row)?),
                    RowAddress::Static => Err(not_in_buckets(&bucketed.logical, "has no static columns")),
                });
                address = Some(Address {
                    place,
                    mutations: Rows::new(of, bucketed, &cas.mutations)?,
                    conditions: rows.collect::<Result<_, StoreError>>()?,
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
                    mutations: Rows::new(of, bucketed, &write.mutations)?,
                    conditions: Vec::new(),
                });
            }
            addresses.plain.push(address);
        }
        Ok(addresses)
    }

    /// Returns the index of a partition in `addresses`, and adds it if necessary. Returns `None` if its table is not
    /// kept in buckets.
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

impl Rows {
    fn new(place: &Place, bucketed: &Bucketed, mutations: &[Mutation]) -> Result<Self, StoreError> {
        let mut rows = Self {
            keys: Vec::new(),
            rows: Vec::with_capacity(mutations.len()),
        };
        for (number, mutation) in mutations.iter().enumerate() {
            let Some(row) = mutation.operation.row() else {
                return Err(not_in_buckets(
                    &bucketed.logical,
                    "can only be written row by row",
                ));
            };
            place
                .pieced
                .push_key(row, &mut rows.keys)
                .map_err(StoreError::from)?;
            if number == 0 {
                // Most encoded keys are about as long as the first key, so reserve memory for all
                // keys at once.
                rows.keys.reserve(rows.keys.len() * mutations.len());
            }
            rows.rows.push((rows.keys.len(), put_bytes(mutation)));
        }
        Ok(rows)
    }

    fn key(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).map_or(0, |before| self.rows[before].0);
        &self.keys[start..self.rows[number].0]
    }

    /// Returns the rows from index `first` on, each with its bytes if it is put.
    fn from(&self, first: usize) -> impl Iterator<Item = (&[u8], Option<u32>)> {
        (first..self.rows.len()).map(|number| (self.key(number), self.rows[number].1))
    }
}

/// Returns the number of bytes of the row that a mutation puts, or `None` if it puts no row.
fn put_bytes(mutation: &Mutation) -> Option<u32> {
    match &mutation.operation {
        Operation::Put {
            clustering, cells, ..
        }
        | Operation::Patch {
            clustering, cells, ..
        } => u32::try_from(clustering.byte_len() + cells.byte_len()).ok(),
        _ => None,
    }
}

impl Addresses {
    /// Returns the buckets of the rows while the partitions are locked.
    pub(super) fn buckets(&self, guard: &Guard) -> Result<Buckets, StoreError> {
        let mut arrivals = Arrivals::new();
        let mut all = |addresses: &[Option<Address>]| -> Result<Vec<AddressBuckets>, StoreError> {
            let each = addresses.iter().map(|address| match address {
                None => Ok(AddressBuckets::default()),
                Some(address) => {
                    let place = &self.places[address.place].0;
                    let conditions = address.conditions.iter();
                    let conditions = conditions.map(|key| Ok(guard.stretch_of(place, key)?.bucket));
                    Ok(AddressBuckets {
                        conditions: conditions.collect::<Result<_, StoreError>>()?,
                        mutations: address.runs(place, guard, &mut arrivals)?,
                    })
                }
            });
            each.collect()
        };
        Ok(Buckets {
            conditional: all(&self.conditional)?,
            plain: all(&self.plain)?,
            arrivals,
        })
    }

    /// Returns the rows that are put, for each partition, in the order of their keys and without duplicates. The size
    /// of each row is multiplied by `each`, the number of rows that it represents.
    pub(super) fn sampled(&self, each: u32) -> Vec<(Arc<Place>, Vec<Row>)> {
        let each = u64::from(each);
        let mut sampled: Vec<(Arc<Place>, Vec<Row>)> = self
            .places
            .iter()
            .map(|(place, _)| (Arc::clone(place), Vec::new()))
            .collect();
        for address in self.plain.iter().flatten() {
            let (place, rows) = &mut sampled[address.place];
            let size = place.pieced.size;
            let put = address.mutations.from(0);
            rows.extend(put.filter_map(|(key, put)| {
                let amount = size.of_cells(put?.into());
                Some((key.to_vec(), amount.saturating_mul(each)))
            }));
        }
        for (_, rows) in &mut sampled {
            in_order(rows);
        }
        sampled
    }

    /// Returns the work that must precede the writes, if any. The partitions must not be locked during this work.
    /// Returns an error if a row is below the retention bound.
    pub(super) fn before(&self, guard: &Guard, now_ms: i64) -> Result<Option<Prerequisite>, StoreError> {
        let raised = self.to_be_raised(guard, now_ms)?;
        let missing = self.missing(guard)?;
        let made = (!missing.is_empty()).then_some(Prerequisite::Make(missing));
        Ok(raised.map(Prerequisite::Raise).or(made))
    }

    fn to_be_raised(&self, guard: &Guard, now_ms: i64) -> Result<Option<Arc<Place>>, StoreError> {
        for (place, _) in &self.places {
            if guard.is_to_be_raised(place, now_ms)? {
                return Ok(Some(Arc::clone(place)));
            }
        }
        Ok(None)
    }

    /// Returns the missing time buckets of the rows, by the index of the partition. Returns an error if a row is below
    /// the retention bound.
    fn missing(&self, guard: &Guard) -> Result<BTreeMap<usize, Missing>, StoreError> {
        let mut missing: BTreeMap<usize, Missing> = BTreeMap::new();
        for address in self.conditional.iter().chain(&self.plain).flatten() {
            let place = &self.places[address.place].0;
            if place.pieced.times.is_none() && place.pieced.keep.is_none() {
                continue;
            }
            for (key, _) in address.mutations.from(0).filter(|(_, put)| put.is_some()) {
                if is_left_out(place, guard, key) {
                    continue;
                }
                guard.check_kept(place, key)?;
                if let Some(times) = &place.pieced.times {
                    let of_place = missing.entry(address.place).or_default();
                    guard.look_for(place, times, key, of_place)?;
                }
            }
        }
        missing.retain(|_, of_place| !of_place.is_empty());
        Ok(missing)
    }

    /// Returns the rows that arrive in the buckets `into`, in the order of their keys and without duplicates.
    pub(super) fn coming(&self, buckets: &Buckets, into: BTreeSet<(usize, Bucket)>) -> Coming {
        let mut coming: Coming = into.into_iter().map(|bucket| (bucket, Vec::new())).collect();
        let conditional = self.conditional.iter().zip(&buckets.conditional);
        let plain = self.plain.iter().zip(&buckets.plain);
        for (address, buckets) in conditional.chain(plain) {
            let Some(address) = address else { continue };
            let size = self.places[address.place].0.pieced.size;
            let mut rows = address.mutations.from(0);
            for run in &buckets.mutations {
                let of_run = rows.by_ref().take(run.mutations);
                let into = run.bucket.map(|bucket| (address.place, bucket));
                match into.and_then(|into| coming.get_mut(&into)) {
                    None => of_run.for_each(drop),
                    Some(coming) => coming.extend(
                        of_run.filter_map(|(key, put)| Some((key.to_vec(), size.of_cells(put?.into())))),
                    ),
                }
            }
        }
        coming.values_mut().for_each(in_order);
        coming
    }
}

/// Returns whether a put of this key is skipped because it is below the retention bound.
fn is_left_out(place: &Place, guard: &Guard, key: &[u8]) -> bool {
    place.pieced.leaves_out_late && guard.hides(place, key)
}

/// Sorts rows by their keys and removes duplicates.
fn in_order(rows: &mut Vec<Row>) {
    if !rows.is_sorted() {
        rows.sort_unstable();
    }
    rows.dedup_by(|later, row| later.0 == row.0);
}

impl Address {
    /// Returns the mutations in runs whose rows are in the same bucket. Adds the rows that arrive to `arrivals`.
    fn runs(&self, place: &Place, guard: &Guard, arrivals: &mut Arrivals) -> Result<Vec<Run>, StoreError> {
        let (mut runs, mut first) = (Vec::<Run>::new(), 0);
        while first < self.mutations.rows.len() {
            let stretch = guard.stretch_of(place, self.mutations.key(first))?;
            let mut came = Came::default();
            let mut count = 0;
            let is_late = |key: &[u8], put: Option<u32>| put.is_some() && is_left_out(place, guard, key);
            let are_late = is_late(self.mutations.key(first), self.mutations.rows[first].1);
            for (key, put) in self.mutations.from(first) {
                if is_late(key, put) != are_late {
                    break;
                }
                // Most rows arrive in key order. A key that is not below the largest key so far is
                // not below the start of the stretch either.
                let is_behind = came.most.is_some_and(|most| key >= most);
                if !stretch.is_before_end(key) || !(is_behind || stretch.start <= key) {
                    break;
                }
                if let Some(bytes) = put.filter(|_| !are_late) {
                    came.add(key, is_behind, bytes.into());
                }
                count += 1;
            }
            let bucket = stretch.bucket;
            runs.push(Run {
                bucket: (!are_late).then_some(bucket),
                mutations: count,
            });
            if let (Some(least), Some(most)) = (came.least, came.most) {
                let arrival = arrivals.entry((self.place, bucket)).or_default();
                arrival.add(least, most, came.rows, came.bytes);
            }
            first += count;
        }
        Ok(runs)
    }
}

/// Rows of a run that are put.
#[derive(Default)]
struct Came<'k> {
    least: Option<&'k [u8]>,
    most: Option<&'k [u8]>,
    rows: u64,
    bytes: u64,
}

impl<'k> Came<'k> {
    fn add(&mut self, key: &'k [u8], is_behind: bool, bytes: u64) {
        if is_behind || self.most.is_none() {
            self.most = Some(key);
        }
        if self.least.is_none_or(|least| !is_behind && key < least) {
            self.least = Some(key);
        }
        self.rows += 1;
        self.bytes += bytes;
    }
}

impl Arrival {
    pub(super) fn arrived(&self) -> Arrived<'_> {
        Arrived {
            least: &self.least,
            most: &self.most,
            rows: self.rows,
            bytes: self.bytes,
        }
    }

    fn add(&mut self, least: &[u8], most: &[u8], rows: u64, bytes: u64) {
        if self.rows == 0 || *least < *self.least {
            least.clone_into(&mut self.least);
        }
        if self.rows == 0 || *most > *self.most {
            most.clone_into(&mut self.most);
        }
        self.rows += rows;
        self.bytes += bytes;
    }
}
