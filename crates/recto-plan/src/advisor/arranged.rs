//! Choice of the partition and order of one view that serves several queries.

use std::collections::BTreeSet;

use recto_model::schema::{Bucket, BucketStrategy, Collection, MAX_NAME_LENGTH, Nulls, OrderColumn, View};
use recto_model::table::Direction;

use crate::advisor::needs::Needs;

/// Target size of a bucket in a view without partition fields, in bytes.
const BUCKET_BYTES: u64 = 10_000_000;

/// Partition and order chosen for a view. Fields are indexes into the fields of the collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arranged {
    pub(crate) partition: Vec<usize>,
    pub(crate) order: Vec<(usize, Direction)>,
    skips_nulls: bool,
}

impl Arranged {
    /// Returns a view that serves all of the given queries. Every two of the queries must agree,
    /// which means that one view can serve both. The view has the maximum number of partition
    /// fields and the minimum number of order columns.
    pub(crate) fn new(collection: &Collection, queries: &[&Needs]) -> Self {
        let mut queries = queries.to_vec();
        queries.sort_by_key(|needs| needs.pinned.len());
        let partition: Vec<usize> = queries
            .first()
            .map_or_else(Vec::new, |fewest| fewest.pinned.iter().copied().collect());
        let fields = sequence(collection, &queries, partition.len());
        let mut order = Order::new(fields, &queries, partition.len());
        order.leave_out_the_key(collection, &partition);
        Self {
            partition,
            order: order.columns,
            skips_nulls: queries.iter().any(|needs| needs.skips_nulls),
        }
    }

    /// Returns the number of columns that the view declares in the schema. Key fields that Recto
    /// appends to the order do not count.
    pub(crate) fn columns(&self) -> usize {
        self.partition.len() + self.order.len()
    }

    /// Returns the view for the schema, with a name that no sort order of the collection has.
    pub(crate) fn view(&self, collection: &Collection) -> View {
        let name = |field: usize| collection.fields[field].name.clone();
        let order = self.order.iter().map(|(field, direction)| OrderColumn {
            field: name(*field),
            direction: *direction,
        });
        let partition = self.partition.iter().map(|field| name(*field));
        let mut view = View::new(self.name(collection), partition, order).collated_as(collection);
        view.nulls = if self.skips_nulls {
            Nulls::Skip
        } else {
            Nulls::default()
        };
        if self.partition.is_empty() {
            view.bucket = Some(Bucket {
                strategy: BucketStrategy::Target { bytes: BUCKET_BYTES },
                shards: 1,
                keep: None,
            });
        }
        view
    }

    /// Returns a name that no sort order of the collection has. The name joins the partition
    /// fields, and the order fields if necessary.
    fn name(&self, collection: &Collection) -> String {
        let joined = |fields: &[usize]| {
            let names = fields.iter().map(|field| collection.fields[*field].name.as_str());
            names.collect::<Vec<_>>().join("_")
        };
        let order: Vec<usize> = self.order.iter().map(|(field, _)| *field).collect();
        let short = match self.partition.as_slice() {
            [] => "all".to_owned(),
            partition => format!("by_{}", joined(partition)),
        };
        let long = match order.as_slice() {
            [] => short.clone(),
            order => format!("{short}_{}", joined(order)),
        };
        let cut = |mut name: String, end: &str| {
            name.truncate(MAX_NAME_LENGTH - end.len());
            name + end
        };
        let numbered = (2..).map(|number| cut(short.clone(), &format!("_{number}")));
        let mut names = [cut(short.clone(), ""), cut(long, "")]
            .into_iter()
            .chain(numbered);
        let is_free = |name: &String| collection.sort_orders().iter().all(|one| one.name() != name);
        names.find(is_free).unwrap_or(short)
    }
}

/// Returns the field for each position of a view's order. Recto appends key fields that a view does
/// not name to its order, in the order of the key. The function therefore
/// puts key fields at the end if the queries allow it, so that the view need not name them.
///
/// The function fills the positions from the last to the first. At each position that no query
/// determines, it takes the last key field that precedes the key field at the next position.
fn sequence(collection: &Collection, queries: &[&Needs], partition_len: usize) -> Vec<usize> {
    let end = queries.iter().map(|needs| needs.end()).max().unwrap_or(0);
    let needed = |place: usize| {
        queries
            .iter()
            .find_map(|needs| needs.at(place))
            .map(|(field, _)| field)
    };
    let mut places: Vec<Option<usize>> = (0..end).map(needed).collect();
    let in_key = |field: usize| {
        let name = &collection.fields[field].name;
        collection.key.iter().position(|key| key == name)
    };
    let is_named = |name: &String| {
        let mut by = queries.iter().flat_map(|needs| {
            needs
                .pinned
                .iter()
                .copied()
                .chain((0..end).filter_map(|place| Some(needs.at(place)?.0)))
        });
        by.any(|field| collection.fields[field].name == *name)
    };
    let mut next = collection
        .key
        .iter()
        .position(|name| !is_named(name))
        .unwrap_or(collection.key.len());
    for place in (partition_len..end).rev() {
        let field = places[place].or_else(|| {
            let open = open_fields(queries, &places, place);
            let follow = open
                .iter()
                .filter(|field| in_key(**field).is_some_and(|at| at < next));
            follow
                .max_by_key(|field| in_key(**field))
                .or(open.last())
                .copied()
        });
        places[place] = field;
        next = field.and_then(in_key).filter(|at| *at < next).unwrap_or(0);
    }
    places.into_iter().skip(partition_len).flatten().collect()
}

/// Returns the fields that may be at `place`, a position in the view's columns that no query
/// determines. `queries` are sorted by the number of fields that they fix. The result has the
/// fields that the first query with more than `place` fixed fields fixes, but the query before it
/// does not. Fields that already have a position are left out.
fn open_fields(queries: &[&Needs], places: &[Option<usize>], place: usize) -> Vec<usize> {
    let split = queries.partition_point(|needs| needs.pinned.len() <= place);
    let empty = BTreeSet::new();
    let before = split
        .checked_sub(1)
        .map_or(&empty, |index| &queries[index].pinned);
    let pinned = queries.get(split).map_or(&empty, |needs| &needs.pinned);
    let fields = pinned.difference(before).copied();
    fields.filter(|field| !places.contains(&Some(*field))).collect()
}

/// Builder of a view's order columns, which chooses the direction of each column.
struct Order {
    columns: Vec<(usize, Direction)>,
    /// Ranges of columns whose relative directions the queries determine. Only all columns of a
    /// range together can be reversed.
    runs: Vec<std::ops::Range<usize>>,
}

impl Order {
    fn new(fields: Vec<usize>, queries: &[&Needs], partition_len: usize) -> Self {
        // Ask queries with a sort first: they require directions, and queries without a sort accept
        // any direction.
        let (sorted, others): (Vec<&Needs>, Vec<&Needs>) =
            queries.iter().copied().partition(|needs| needs.is_sorted);
        let heard: Vec<&Needs> = sorted.into_iter().chain(others).collect();
        let mut order = Self {
            columns: Vec::with_capacity(fields.len()),
            runs: Vec::new(),
        };
        for (index, field) in fields.into_iter().enumerate() {
            let place = partition_len + index;
            let binding =
                |needs: &&&Needs| index > 0 && needs.at(place - 1).is_some() && needs.at(place).is_some();
            let said = |needs: &&Needs, place| needs.at(place).map(|(_, direction)| direction);
            if let Some(needs) = heard.iter().find(binding) {
                let turns = said(needs, place) != said(needs, place - 1);
                let (_, before) = order.columns[index - 1];
                order
                    .columns
                    .push((field, if turns { before.reversed() } else { before }));
                if let Some(run) = order.runs.last_mut() {
                    run.end = index + 1;
                }
            } else {
                let direction = heard.iter().find_map(|needs| said(needs, place));
                order
                    .columns
                    .push((field, direction.unwrap_or(Direction::Ascending)));
                order.runs.push(index..index + 1);
            }
        }
        order
    }

    /// Removes the last columns if Recto would append the same columns: it appends key fields that
    /// the view does not name, ascending. Reverses the directions of columns if that allows the
    /// removal and all queries accept the reversed directions.
    fn leave_out_the_key(&mut self, collection: &Collection, partition: &[usize]) {
        let len = self.columns.len();
        for kept in 0..len {
            let named = |name: &str| {
                let mut fields = partition
                    .iter()
                    .chain(self.columns[..kept].iter().map(|(field, _)| field));
                fields.any(|field| collection.fields[*field].name == name)
            };
            let follow = collection.key.iter().filter(|name| !named(name));
            let left_out = || {
                let left_out = self.columns[kept..].iter();
                left_out.map(|(field, _)| &collection.fields[*field].name)
            };
            let follows = follow.take(len - kept).eq(left_out());
            // Recto orders the text of appended key fields by its bytes, so leave out only fields
            // without a collation.
            let by_bytes = left_out().all(|name| collection.collation_of(name).is_none());
            if follows
                && by_bytes
                && let Some(turned) = self.ascending_from(kept)
            {
                self.columns = turned;
                self.columns.truncate(kept);
                return;
            }
        }
    }

    /// Returns the columns with directions reversed so that all columns from index `kept` on are
    /// ascending. Returns `None` if the queries do not allow such directions.
    fn ascending_from(&self, kept: usize) -> Option<Vec<(usize, Direction)>> {
        let mut columns = self.columns.clone();
        for run in self.runs.iter().filter(|run| run.end > kept) {
            if columns[run.end - 1].1 == Direction::Descending {
                for (_, direction) in &mut columns[run.clone()] {
                    *direction = direction.reversed();
                }
            }
        }
        let ascends = columns[kept..]
            .iter()
            .all(|(_, direction)| *direction == Direction::Ascending);
        ascends.then_some(columns)
    }
}
