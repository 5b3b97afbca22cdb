//! Tests of queries with filters on several fields, which several views serve together (an
//! intersection of views). Each view serves the filter on one field.

use std::cmp::Ordering;
use std::fmt::Write;
use std::future::IntoFuture;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use recto::session::{ExplainedSource, PageRequest, Pages};
use recto::{Count, Cursor, DynamicRecord, LocalSession, PageQuery, Recto, Stop, Value};
use recto_testkit::generate::{self, Rng};
use serde_json::{Map, json};

use crate::common::stores::{kind_of, parse};
use crate::common::{Fresh, Kind, seed};

/// Number of fields on which queries can have filters.
const FIELDS: usize = 3;

/// Copy of a stored record, to compute expected results.
#[derive(Debug, Clone)]
struct Known {
    id: i64,
    filtered: [Option<i64>; FIELDS],
    sorted: [Option<i64>; 2],
    /// Field in no view's partition or order, so that a filter on it needs a filter scan.
    plain: Option<i64>,
}

impl Known {
    fn json(&self) -> Map<String, serde_json::Value> {
        let mut record = Map::new();
        record.insert("id".into(), json!(self.id));
        let filtered = self.filtered.iter().enumerate();
        let filtered = filtered.map(|(index, value)| (format!("f{index}"), *value));
        let sorted = self.sorted.iter().zip(["x", "y"]);
        let sorted = sorted.map(|(value, name)| (name.to_owned(), *value));
        let plain = [("z".to_owned(), self.plain)];
        for (name, value) in filtered.chain(sorted).chain(plain) {
            if let Some(value) = value {
                record.insert(name, json!(value));
            }
        }
        record
    }
}

/// Column of the order that all views have: the index of its field in [`Known::sorted`], whether it
/// is descending, and whether nulls come last.
#[derive(Debug, Clone, Copy)]
struct SortColumn {
    sorted: usize,
    descends: bool,
    nulls_last: bool,
}

/// Random collection in which each view has one field as partition. All views have the same order,
/// or its exact reverse.
#[derive(Debug)]
struct Drawn {
    by: Vec<SortColumn>,
    id_descends: bool,
    turned: [bool; FIELDS],
    /// True if a view contains only its key and order fields, so that its row does not show whether
    /// the record matches other conditions.
    are_narrow: bool,
    schema: String,
    records: Vec<Known>,
}

impl Drawn {
    fn new(random: &mut Rng, writes: &str, records: i64) -> Self {
        let nulls_last = random.usize(0..2) == 0;
        let first = random.usize(0..2);
        let columns = 1 + random.usize(0..2);
        let by = (0..columns).map(|index| SortColumn {
            sorted: (first + index) % 2,
            descends: random.usize(0..2) == 0,
            nulls_last,
        });
        let by: Vec<SortColumn> = by.collect();
        let mut drawn = Self {
            by,
            id_descends: random.usize(0..2) == 0,
            turned: std::array::from_fn(|_| random.usize(0..2) == 0),
            are_narrow: random.usize(0..3) == 0,
            schema: String::new(),
            records: Vec::new(),
        };
        drawn.schema = drawn.declare(writes);
        let mut value = |values: usize, null_of: usize| {
            let is_null = random.usize(0..null_of) == 0;
            let value = random.usize(0..values) as i64;
            (!is_null).then_some(value)
        };
        let record = |id| Known {
            id,
            filtered: std::array::from_fn(|_| value(2, 9)),
            sorted: [value(6, 5), value(4, 5)],
            plain: value(3, 5),
        };
        drawn.records = (0..records).map(record).collect();
        drawn
    }

    fn declare(&self, writes: &str) -> String {
        let mut schema = format!(
            "[collection.items]\nfields = {{ id = \"int\", f0 = \"int\", f1 = \"int\", f2 = \"int\", x = \"int\", y = \"int\", z = \"int\" }}\nkey = [\"id\"]\nwrites = \"{writes}\"\n"
        );
        for field in 0..FIELDS {
            write!(schema, "{}", self.view(&[field], self.turned[field])).unwrap();
        }
        schema
    }

    /// Returns the declaration of a view with the partition `fields`. If `turned` is true, its
    /// order is reversed.
    fn view(&self, fields: &[usize], turned: bool) -> String {
        let partition: Vec<String> = fields.iter().map(|field| format!("\"f{field}\"")).collect();
        let name: Vec<String> = fields.iter().map(|field| format!("f{field}")).collect();
        let nulls = if self.by[0].nulls_last == turned {
            "first"
        } else {
            "last"
        };
        format!(
            "\n[collection.items.view.by_{}]\n{}partition = [{}]\norder = [{}]\nnulls = \"{nulls}\"\n",
            name.join("_"),
            if self.are_narrow { "fields = []\n" } else { "" },
            partition.join(", "),
            self.order(turned, |name, descends| {
                format!("\"{}{name}\"", if descends { "-" } else { "" })
            })
        )
    }

    fn order(&self, turned: bool, column: impl Fn(&str, bool) -> String) -> String {
        let by = self.by.iter().map(|by| (["x", "y"][by.sorted], by.descends));
        let columns = by.chain([("id", self.id_descends)]);
        let columns: Vec<String> = columns
            .map(|(name, descends)| column(name, descends != turned))
            .collect();
        columns.join(", ")
    }

    /// Returns the common order of the views, or its reverse, as the sort of a query.
    fn sort(&self, turned: bool) -> String {
        self.order(turned, |name, descends| {
            format!("{name} {}", if descends { "desc" } else { "asc" })
        })
    }

    fn compare(&self, one: &Known, other: &Known) -> Ordering {
        for by in &self.by {
            let ordering = match (one.sorted[by.sorted], other.sorted[by.sorted]) {
                (Some(one), Some(other)) if by.descends => other.cmp(&one),
                (Some(one), Some(other)) => one.cmp(&other),
                (None, None) => Ordering::Equal,
                (None, Some(_)) if by.nulls_last => Ordering::Greater,
                (Some(_), None) if !by.nulls_last => Ordering::Greater,
                _ => Ordering::Less,
            };
            if ordering.is_ne() {
                return ordering;
            }
        }
        if self.id_descends {
            other.id.cmp(&one.id)
        } else {
            one.id.cmp(&other.id)
        }
    }

    /// Returns the ids of the records that a query must return, in order.
    fn expected(&self, asked: &IntersectionQuery, turned: bool) -> Vec<i64> {
        let is_asked = |record: &&Known| {
            let filtered = asked.fields.iter();
            let mut filtered = filtered.map(|(field, value)| record.filtered[*field] == Some(*value));
            let ranged = record.sorted[self.by[0].sorted];
            filtered.all(|is_it| is_it)
                && asked.least.is_none_or(|least| ranged >= Some(least))
                && asked
                    .most
                    .is_none_or(|most| record.plain.is_some_and(|plain| plain <= most))
        };
        let mut records: Vec<&Known> = self.records.iter().filter(is_asked).collect();
        records.sort_by(|one, other| self.compare(one, other));
        if turned {
            records.reverse();
        }
        records.iter().map(|record| record.id).collect()
    }

    fn filter(&self, asked: &IntersectionQuery) -> String {
        let fields = asked.fields.iter();
        let mut conditions: Vec<String> = fields
            .map(|(field, value)| format!("f{field} = {value}"))
            .collect();
        if let Some(least) = asked.least {
            conditions.push(format!("{} >= {least}", ["x", "y"][self.by[0].sorted]));
        }
        if let Some(most) = asked.most {
            conditions.push(format!("z <= {most}"));
        }
        conditions.join(" AND ")
    }

    async fn store(&self, kind: Kind) -> Recto {
        let recto = Fresh::new(kind).open().await;
        recto.apply(&parse(&self.schema)).await.unwrap();
        put(&recto, self.records.iter().map(Known::json)).await;
        recto
    }
}

/// Query of the random tests: equalities on some fields, and an optional range on the first order
/// column.
#[derive(Debug)]
struct IntersectionQuery {
    fields: Vec<(usize, i64)>,
    least: Option<i64>,
    most: Option<i64>,
}

async fn put(recto: &Recto, records: impl Iterator<Item = Map<String, serde_json::Value>>) {
    let items = recto.dynamic("items").unwrap();
    let definition = items.definition();
    let record = |json| DynamicRecord::from_json(Arc::clone(&definition), &json).unwrap();
    let records: Vec<DynamicRecord> = records.map(record).collect();
    let puts = records.iter().map(|record| items.put(record).into_future());
    futures::stream::iter(puts)
        .buffer_unordered(16)
        .try_collect::<Vec<_>>()
        .await
        .unwrap();
}

fn id_of(record: &DynamicRecord) -> i64 {
    match record.get("id") {
        Some(Value::Int(id)) => i64::from(*id),
        other => panic!("{other:?}"),
    }
}

/// Returns the ids of all records of a query, read in pages of changing sizes. `ask` returns the
/// query for the page with a given index.
async fn walk(
    ask: impl Fn(usize) -> PageQuery<DynamicRecord>,
    back: bool,
    size: impl FnMut() -> usize,
) -> Vec<i64> {
    walk_of(ask, back, size, id_of).await
}

async fn walk_of<T>(
    ask: impl Fn(usize) -> PageQuery<DynamicRecord>,
    back: bool,
    mut size: impl FnMut() -> usize,
    of: impl Fn(&DynamicRecord) -> T,
) -> Vec<T> {
    let (mut found, mut cursor): (Vec<T>, Option<Cursor>) = (Vec::new(), None);
    for number in 0.. {
        let size = size() as u32;
        let query = match (cursor, back) {
            (None, false) => ask(number).first(size),
            (None, true) => ask(number).last(size),
            (Some(cursor), _) => ask(number).page_size(size).page_token(cursor),
        };
        let page = query.await.unwrap();
        let place = if back { 0 } else { found.len() };
        found.splice(place..place, page.iter().map(&of));
        cursor = if back {
            page.previous_cursor()
        } else {
            page.next_cursor()
        };
        if cursor.is_none() {
            break;
        }
    }
    found
}

/// Checks every combination of filters, with the following variations:
///
/// - in both orders and without a sort
/// - forwards and backwards
/// - with and without a range, and with and without a condition that no view serves
///
/// Some pages end early at random budgets, and other plans continue from their cursors.
pub(crate) async fn every_combination_is_served_by_views_of_a_field_each(recto: Recto) {
    let kind = kind_of(&recto);
    let (rounds, records) = match kind {
        Kind::Embedded => (12, 150),
        Kind::Cassandra => (2, 60),
    };
    let mut random = generate::rng(seed());
    for round in 0..rounds {
        let writes = ["append", "update"][round % 2];
        let drawn = Drawn::new(&mut random, writes, records);
        let recto = drawn.store(kind).await;
        for combination in 0..1_usize << FIELDS {
            let fields = (0..FIELDS).filter(|field| combination & (1 << field) != 0);
            let asked = IntersectionQuery {
                fields: fields.map(|field| (field, random.usize(0..2) as i64)).collect(),
                least: (random.usize(0..2) == 0).then(|| random.usize(0..6) as i64),
                most: (random.usize(0..3) == 0).then(|| random.usize(0..3) as i64),
            };
            if asked.fields.len() > 1 {
                check(&recto, &drawn, &asked, &mut random).await;
            }
        }
        goes_on_in_a_composite_view(&recto, &drawn, &mut random).await;
    }
}

/// Checks that a composite view over all fields continues a list whose first pages intersected
/// several views.
async fn goes_on_in_a_composite_view(recto: &Recto, drawn: &Drawn, random: &mut Rng) {
    let asked = IntersectionQuery {
        fields: (0..FIELDS)
            .map(|field| (field, random.usize(0..2) as i64))
            .collect(),
        least: None,
        most: None,
    };
    let filter = drawn.filter(&asked);
    let items = recto.dynamic("items").unwrap();
    let mut begun = Vec::new();
    for turned in [false, true] {
        for back in [false, true] {
            let query = items.query().filter(&filter).order_by(drawn.sort(turned));
            let query = if back { query.last(3) } else { query.first(3) };
            begun.push((turned, back, query.await.unwrap()));
        }
    }
    let composite = drawn.view(&[0, 1, 2], random.usize(0..2) == 0);
    let schema = format!("{}{composite}", drawn.schema);
    recto.apply(&parse(&schema)).await.unwrap();
    for (turned, back, page) in begun {
        let expected = drawn.expected(&asked, turned);
        let cursor = if back {
            page.previous_cursor()
        } else {
            page.next_cursor()
        };
        let mut found: Vec<i64> = page.iter().map(id_of).collect();
        if let Some(cursor) = cursor {
            let query = items.query().filter(&filter).order_by(drawn.sort(turned));
            let rest = query.page_size(1_000).page_token(cursor).await.unwrap();
            assert_eq!(rest.cost().seeks, 0, "one view serves it alone: {schema}");
            let place = if back { 0 } else { found.len() };
            found.splice(place..place, rest.iter().map(id_of));
        }
        assert_eq!(
            found, expected,
            "{filter}, turned: {turned}, back: {back}, {schema}"
        );
    }
}

async fn check(recto: &Recto, drawn: &Drawn, asked: &IntersectionQuery, random: &mut Rng) {
    let items = recto.dynamic("items").unwrap();
    let (filter, first) = (drawn.filter(asked), asked.fields[0].0);
    let plain = || {
        let query = items.query().filter(&filter);
        if asked.most.is_some() {
            query.allow_filter_scan()
        } else {
            query
        }
    };
    let rows = drawn.expected(asked, false).len() as u64;
    let limit = 1 + random.usize(0..2 * rows as usize + 2) as u32;
    let page = plain().count(Count::UpTo(limit)).first(1).await.unwrap();
    let counted = page.row_count().unwrap();
    assert_eq!(
        counted.total_size,
        rows.min(limit.into()),
        "{filter} of\n{}",
        drawn.schema
    );
    assert_eq!(counted.total_size_is_minimum, rows > limit.into());
    let mut sorts = vec![(String::new(), drawn.turned[first])];
    sorts.extend([false, true].map(|turned| (drawn.sort(turned), turned)));
    for (sort, turned) in sorts {
        let expected = drawn.expected(asked, turned);
        let message = format!("{filter} by {sort:?} of\n{}", drawn.schema);
        let intersected = || {
            if sort.is_empty() {
                plain()
            } else {
                plain().order_by(&sort)
            }
        };
        let checked = || {
            let view = format!("by_f{first}");
            intersected().view(view).allow_filter_scan()
        };
        let scanned = 1 + random.usize(0..20) as u64;
        for back in [false, true] {
            let mut size = || 1 + random.usize(0..9);
            let found = walk(|_| intersected(), back, &mut size).await;
            assert_eq!(found, expected, "back: {back}, {message}");
            let found = walk(|_| checked(), back, &mut size).await;
            assert_eq!(found, expected, "row by row, back: {back}, {message}");
            let by_turns = |number| if number % 2 == 0 { intersected() } else { checked() };
            let found = walk(by_turns, back, &mut size).await;
            assert_eq!(found, expected, "by turns, back: {back}, {message}");
            let found = walk(|_| intersected().scan_budget(scanned), back, &mut size).await;
            assert_eq!(found, expected, "{scanned} scanned, back: {back}, {message}");
        }
    }
}

const KEYS: &str = r#"
[collection.cells]
fields = { a = "int", b = "int", c = "int", at = "int" }
key = ["a", "b", "c", "at"]
partition = ["a"]
order = ["at"]
writes = "overwrite"

[collection.cells.view.by_b]
partition = ["b"]
order = ["at", "a", "c"]

[collection.cells.view.by_c]
partition = ["c"]
order = ["-at", "-a", "-b"]
"#;

/// Checks views of which one fixes a key field that another view has at the end of its order. The
/// other view then has additional rows between the rows of the result.
pub(crate) async fn key_fields_that_other_views_pin_are_no_part_of_the_order(recto: Recto) {
    let recto = Fresh::new(kind_of(&recto)).open().await;
    recto.apply(&parse(KEYS)).await.unwrap();
    let mut random = generate::rng(seed());
    let all = (0..3 * 3 * 3 * 6).map(|one| [one % 3, one / 3 % 3, one / 9 % 3, one / 27]);
    let there: Vec<[i64; 4]> = all.filter(|_| random.usize(0..3) > 0).collect();
    let cells = recto.dynamic("cells").unwrap();
    let definition = cells.definition();
    let records = there.iter().map(|[a, b, c, at]| {
        let record = json!({ "a": a, "b": b, "c": c, "at": at });
        DynamicRecord::from_json(Arc::clone(&definition), record.as_object().unwrap()).unwrap()
    });
    cells.put_all(&records.collect::<Vec<_>>()).await.unwrap();
    let values = |record: &DynamicRecord| {
        ["at", "a", "b", "c"].map(|name| match record.get(name) {
            Some(Value::Int(value)) => i64::from(*value),
            other => panic!("{other:?}"),
        })
    };
    for (filter, pinned) in [
        ("a = 1 AND b = 2", [Some(1), Some(2), None]),
        ("a = 0 AND c = 1", [Some(0), None, Some(1)]),
        ("a = 2 AND b = 0 AND c = 0", [Some(2), Some(0), Some(0)]),
    ] {
        let is_asked = |one: &&[i64; 4]| {
            let mut pins = pinned.iter().zip(*one);
            pins.all(|(pin, value)| pin.is_none_or(|pin| pin == *value))
        };
        let asked = there.iter().filter(is_asked);
        let mut expected: Vec<[i64; 4]> = asked.map(|[a, b, c, at]| [*at, *a, *b, *c]).collect();
        expected.sort_unstable();
        for back in [false, true] {
            for scanned in [1, 4, 10_000] {
                let ask = |_| cells.query().filter(filter).order_by("at").scan_budget(scanned);
                let found = walk_of(ask, back, || 1 + random.usize(0..5), values).await;
                assert_eq!(found, expected, "{filter}, back: {back}, {scanned}");
            }
        }
    }
}

const SCHEMA: &str = r#"
[collection.items]
fields = { id = "int", f0 = "int", f1 = "int", f2 = "int", x = "int" }
key = ["id"]
writes = "append"

[collection.items.view.by_f0]
partition = ["f0"]
order = ["x"]

[collection.items.view.by_f1]
partition = ["f1"]
order = ["x"]
"#;

const COMPOSITE: &str = r#"
[collection.items.view.by_both]
partition = ["f0", "f1"]
order = ["x"]
"#;

/// Creates a store with `count` records. `fields` computes the fields `f0` and `f1` of a record
/// from its id.
async fn items(recto: &Recto, count: i64, fields: impl Fn(i64) -> (i64, i64)) -> Recto {
    let recto = Fresh::new(kind_of(recto)).open().await;
    recto.apply(&parse(SCHEMA)).await.unwrap();
    let records = (0..count).map(|id| {
        let (f0, f1) = fields(id);
        let record = json!({ "id": id, "x": id, "f0": f0, "f1": f1, "f2": id / 10 });
        record.as_object().unwrap().clone()
    });
    put(&recto, records).await;
    recto
}

fn both(recto: &Recto) -> PageQuery<DynamicRecord> {
    let items = recto.dynamic("items").unwrap();
    items.query().filter("f0 = 1 AND f1 = 1")
}

pub(crate) async fn a_cursor_goes_on_in_a_view_of_all_fields(recto: Recto) {
    let recto = items(&recto, 40, |id| (id % 2, i64::from(id % 3 == 0))).await;
    let expected: Vec<i64> = (0..40).filter(|id| id % 2 == 1 && id % 3 == 0).collect();
    let first = both(&recto).page_size(3).await.unwrap();
    assert!(first.cost().seeks > 0);
    recto
        .apply(&parse(&format!("{SCHEMA}{COMPOSITE}")))
        .await
        .unwrap();
    let next = both(&recto).page_size(2).page_token(first.next_cursor().unwrap());
    let next = next.await.unwrap();
    assert_eq!(next.cost().seeks, 0, "one view serves it alone");
    let found: Vec<i64> = first.iter().chain(next.iter()).map(id_of).collect();
    assert_eq!(found, expected[..5]);
    let back = both(&recto)
        .page_size(2)
        .page_token(next.previous_cursor().unwrap());
    let back: Vec<i64> = back.await.unwrap().iter().map(id_of).collect();
    assert_eq!(back, expected[1..3]);
}

pub(crate) async fn applies_other_conditions_to_common_rows(recto: Recto) {
    // Ten of 300 records match `f0` and `f1`, and one of them also matches `f2`. A filter scan of
    // one view would read 150 rows.
    let recto = items(&recto, 300, |id| (id % 2, i64::from(id % 15 == 1))).await;
    let query = both(&recto)
        .filter("f0 = 1 AND f1 = 1 AND f2 = 3")
        .allow_filter_scan();
    let page = query.page_size(5).await.unwrap();
    let found: Vec<i64> = page.iter().map(id_of).collect();
    assert_eq!(
        (found.len(), page.stop(), page.has_next()),
        (1, None, Some(false))
    );
    assert!(page.cost().rows_read <= 100, "{:?}", page.cost());
}

pub(crate) async fn reads_few_rows_if_nothing_matches(recto: Recto) {
    // Few records match the first field, and none of these matches the second field. Many other
    // records match the second field.
    let apart = items(&recto, 300, |id| (i64::from(id >= 7), i64::from(id < 7))).await;
    let page = both(&apart).page_size(5).await.unwrap();
    assert_eq!((page.len(), page.stop(), page.has_next()), (0, None, Some(false)));
    let chunk = match kind_of(&recto) {
        Kind::Embedded => 16,
        Kind::Cassandra => 32,
    };
    assert!(page.cost().rows_read <= 7 + 2 * chunk, "{:?}", page.cost());
    // The rare records are spread among the others. The page must read only the rare records, and
    // skip the others.
    let between = items(&recto, 300, |id| {
        (i64::from(id % 30 != 0), i64::from(id % 30 == 0))
    })
    .await;
    let page = both(&between).page_size(5).await.unwrap();
    assert_eq!((page.len(), page.stop()), (0, None));
    assert!(page.cost().rows_read <= 10 + 2 * chunk, "{:?}", page.cost());
}

pub(crate) async fn the_sparsest_is_read_on(recto: Recto) {
    let is_remote = kind_of(&recto) == Kind::Cassandra;
    // Half of the records of each view are also in the other view. On a remote store, each step
    // costs a round trip, so the page must request all necessary rows of the first view at once.
    let halves = items(&recto, 400, |id| (id % 2, id / 2 % 2)).await;
    let page = both(&halves).page_size(20).await.unwrap();
    assert_eq!(page.len(), 20);
    assert!(page.cost().rows_read <= 47 + 32, "{:?}", page.cost());
    assert!(!is_remote || page.cost().seeks == 2, "{:?}", page.cost());
    // The page has read more rows of the first view, so these rows reach further in the order. The
    // page must then read the second view, which has fewer rows.
    let fields = |id| (id % 2, i64::from(id % 5 < 2));
    let recto = items(&recto, 600, fields).await;
    let page = both(&recto).page_size(100).await.unwrap();
    let found: Vec<i64> = page.iter().map(id_of).collect();
    let expected: Vec<i64> = (0..600).filter(|id| fields(*id) == (1, 1)).take(100).collect();
    assert_eq!(found, expected);
    let of_second = (0..=expected[99]).filter(|id| id % 5 < 2).count() as u64;
    // On a remote store, the page reads one chunk of the first view, and then one and a half times
    // the number of rows that it estimates to need.
    let most = if is_remote {
        of_second + 227 + 32
    } else {
        of_second + 256
    };
    assert!(page.cost().rows_read <= most, "{:?}", page.cost());
    assert!(!is_remote || page.cost().seeks == 3, "{:?}", page.cost());
}

pub(crate) async fn a_budget_ends_it_at_what_is_decided(recto: Recto) {
    // In the common order, rows of the two views alternate, so the intersection is empty for a long
    // range.
    let recto = items(&recto, 200, |id| (id % 2, (id + 1 + i64::from(id == 151)) % 2)).await;
    let page = both(&recto).page_size(5).scan_budget(40).await.unwrap();
    assert_eq!(
        (page.len(), page.stop(), page.has_next()),
        (0, Some(Stop::Scanned), None)
    );
    assert!(page.cost().rows_read <= 40, "{:?}", page.cost());
    let mut cursor = page.next_cursor();
    let mut pages = 1;
    let mut found = Vec::new();
    while let Some(token) = cursor {
        let page = both(&recto).page_size(5).scan_budget(40).page_token(token);
        let page = page.await.unwrap();
        found.extend(page.iter().map(id_of));
        cursor = page.next_cursor();
        pages += 1;
    }
    assert_eq!(found, [151]);
    assert!((3..=30).contains(&pages), "{pages}");
}

pub(crate) async fn it_is_explained(recto: Recto) {
    let recto = items(&recto, 60, |id| (id % 2, i64::from(id % 3 == 0))).await;
    let session = LocalSession::new(recto.clone());
    let request = PageRequest {
        filter: "f0 = 1 AND f1 = 1".into(),
        ..PageRequest::default()
    };
    let explained = session.explain("items", &request, true).await.unwrap();
    assert_eq!(explained.shape.to_string(), "intersect");
    let views: Vec<&str> = explained.intersected.iter().map(|one| &*one.view).collect();
    assert_eq!(views, ["by_f0", "by_f1"]);
    let places: Vec<String> = explained.sources.iter().map(ExplainedSource::place).collect();
    assert_eq!(places, ["by_f0: f0 = 1", "by_f1: f1 = 1"]);
    let cost = explained.actual.unwrap().cost;
    assert!(cost.seeks >= 2 && cost.rows_read >= 20, "{cost:?}");
    let rejected: Vec<&str> = explained.rejected.iter().map(|one| &*one.sort_order).collect();
    assert_eq!(rejected, ["collection items"]);
    let text = explained.to_string();
    assert!(
        text.contains("\nintersected: by_f1 (f1), x, id, items_by_f1_2 read with"),
        "{text}"
    );
    // The number of rows of an intersection cannot be estimated without reading them, so Recto must
    // reject an estimate.
    let estimated = both(&recto).count(Count::Estimate).await.unwrap_err();
    assert!(estimated.message().contains("intersects"), "{estimated}");
    // Recto must reject a third condition that no view serves. If a filter scan is allowed, Recto
    // checks the condition on the rows that are in both views.
    let more = PageRequest {
        filter: "f0 = 1 AND f1 = 1 AND f2 = 3".into(),
        ..PageRequest::default()
    };
    let error = session.page("items", &more).await.unwrap_err();
    assert!(error.suggestion().is_some(), "{error}");
    let checked = PageRequest {
        allow_filter_scan: true,
        ..more
    };
    let explained = session.explain("items", &checked, true).await.unwrap();
    assert_eq!(explained.shape.to_string(), "intersect + filter");
    let filter_scan: Vec<String> = explained.filter_scan.iter().map(ToString::to_string).collect();
    assert_eq!(
        (filter_scan, explained.intersected.len()),
        (vec!["f2 = 3".to_owned()], 2)
    );
}
