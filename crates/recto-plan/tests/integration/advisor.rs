//! Tests that `design` proposes the minimum number of views. The tests generate all possible views
//! of small collections, and ask the planner which queries each view serves.

use std::cmp::Reverse;
use std::sync::Arc;

use proptest::prelude::*;
use recto_model::Direction;
use recto_model::schema::{Collection, Nulls, OrderColumn, Schema, View};
use recto_plan::advisor::{WorkloadQuery, design};
use recto_plan::planner::{self, Wishes};
use recto_plan::{Query, SortOrder, bind};

/// Schemas of the tested collections. In the first schema, all fields are in the key. In the
/// others, some fields may be null.
const COLLECTIONS: [&str; 3] = [
    r#"
[collection.all]
fields = { a = "int", b = "int", c = "int", d = "int" }
key = ["a", "b", "c", "d"]
writes = "overwrite"
"#,
    r#"
[collection.all]
fields = { a = "int", b = "int", c = "int", d = "int" }
key = ["d"]
writes = "append"
"#,
    r#"
[collection.all]
fields = { a = "text", b = "boolean", c = "timestamp", d = "uuid" }
key = ["b", "d"]
"#,
];

/// Cost of views, compared in this order: number of views, number of views without a partition,
/// number of partition fields (more are better), number of columns.
type Cost = (usize, usize, Reverse<usize>, usize);

/// Returns all possible views of a collection, with the cost of each.
fn all_views(collection: &Collection) -> Vec<(Arc<SortOrder>, Cost)> {
    let fields = collection.fields.len();
    let mut views = Vec::new();
    for set in 0..1_u32 << fields {
        let (partition, rest): (Vec<usize>, Vec<usize>) =
            (0..fields).partition(|field| set & (1 << field) != 0);
        for order in orders(&rest) {
            let name = |field: &usize| collection.fields[*field].name.clone();
            let columns = order.iter().map(|(field, direction)| OrderColumn {
                field: name(field),
                direction: *direction,
            });
            let mut view = View::new("one", partition.iter().map(name), columns);
            view.nulls = Nulls::Last;
            if partition.is_empty() {
                let with = "[collection.x]\nfields = { a = \"int\" }\nkey = [\"a\"]\nwrites = \"append\"\npartition = []\nbucket = { target = \"10MB\" }";
                view.bucket
                    .clone_from(&Schema::parse(with).unwrap().collections[0].bucket);
            }
            let sort_order = SortOrder::new(&collection.arranged(&view), "one").unwrap();
            let cost = (
                1,
                usize::from(partition.is_empty()),
                Reverse(partition.len()),
                partition.len() + order.len(),
            );
            views.push((Arc::new(sort_order), cost));
        }
    }
    views
}

/// Returns all orders that a view of `fields` can have: sequences of some fields, with every
/// combination of directions.
fn orders(fields: &[usize]) -> Vec<Vec<(usize, Direction)>> {
    let mut all = vec![Vec::new()];
    for (index, &field) in fields.iter().enumerate() {
        let mut rest = fields.to_vec();
        rest.remove(index);
        for order in orders(&rest) {
            for direction in [Direction::Ascending, Direction::Descending] {
                let mut longer = vec![(field, direction)];
                longer.extend(&order);
                all.push(longer);
            }
        }
    }
    all
}

/// Returns the cost of the cheapest set of views that serves all queries. For each subset of the
/// queries, the function combines the cheapest view that serves the subset with the cheapest views
/// for the other queries.
fn least(collection: &Collection, views: &[(Arc<SortOrder>, Cost)], queries: &[Query]) -> Cost {
    let served = views.iter().map(|(view, cost)| {
        let serves = |query: &Query| planner::serves(collection, view, query, &Wishes::default()).is_some();
        let queries = queries.iter().enumerate().filter(|(_, query)| serves(query));
        (queries.fold(0_usize, |set, (number, _)| set | 1 << number), *cost)
    });
    let mut best: Vec<Option<Cost>> = vec![None; 1 << queries.len()];
    for (set, cost) in served {
        if best[set].is_none_or(|other| cost < other) {
            best[set] = Some(cost);
        }
    }
    let mut least: Vec<Cost> = vec![(0, 0, Reverse(0), 0)];
    for set in 1..1_usize << queries.len() {
        let choices = best.iter().enumerate().filter_map(|(serves, cost)| {
            let ((views, empty, Reverse(pinned), columns), rest) = ((*cost)?, *least.get(set & !serves)?);
            let (more, more_empty, Reverse(more_pinned), more_columns) = rest;
            let sum = (
                views + more,
                empty + more_empty,
                Reverse(pinned + more_pinned),
                columns + more_columns,
            );
            (set & serves != 0).then_some(sum)
        });
        let choice = choices.min().unwrap();
        least.push(choice);
    }
    least.pop().unwrap()
}

/// Returns a random filter and sort. The filter fixes some fields to one or two values. The sort
/// has some fields, of which the first may also have a range.
fn query() -> impl Strategy<Value = (String, String)> {
    let fields = Just(vec!["a", "b", "c", "d"]).prop_shuffle();
    let directions = proptest::collection::vec(any::<bool>(), 4);
    (
        fields,
        directions,
        0..4_usize,
        0..4_usize,
        any::<bool>(),
        0..6_usize,
    )
        .prop_map(|(fields, directions, pinned, sorted, has_range, twice)| {
            let mut conditions: Vec<String> = fields[..pinned]
                .iter()
                .enumerate()
                .map(|(index, field)| {
                    if index == twice {
                        format!("({field} = ? OR {field} = ?)")
                    } else {
                        format!("{field} = ?")
                    }
                })
                .collect();
            let free = &fields[pinned..];
            if has_range && let Some(field) = free.first() {
                conditions.push(format!("{field} >= ?"));
            }
            let sort = free.iter().zip(directions).take(sorted);
            let sort =
                sort.map(|(field, descends)| format!("{field}{}", if descends { " desc" } else { "" }));
            (conditions.join(" AND "), sort.collect::<Vec<_>>().join(", "))
        })
}

fn asked(queries: &[(String, String)]) -> Vec<WorkloadQuery> {
    let asked = queries
        .iter()
        .enumerate()
        .map(|(index, (filter, order_by))| WorkloadQuery {
            name: format!("q{index}"),
            filter: filter.clone(),
            order_by: order_by.clone(),
            per_day: None,
            line: None,
        });
    asked.collect()
}

/// Returns the filter with values that have the types of the collection's fields.
fn with_values(collection: &Collection, filter: &str) -> String {
    let conditions = filter.split(" AND ").filter(|condition| !condition.is_empty());
    let valued = conditions.map(|condition| {
        let field = condition.trim_start_matches('(').split(' ').next().unwrap();
        let values: [&str; 2] = match collection.field(field).unwrap().1.ty.to_string().as_str() {
            "int" => ["1", "2"],
            "text" => ["\"x\"", "\"y\""],
            "boolean" => ["false", "true"],
            "timestamp" => ["\"2001-01-01T00:00:00Z\"", "\"2002-01-01T00:00:00Z\""],
            _ => [
                "\"10000000-0000-4000-8000-000000000001\"",
                "\"20000000-0000-4000-8000-000000000001\"",
            ],
        };
        condition.replacen('?', values[0], 1).replacen('?', values[1], 1)
    });
    valued.collect::<Vec<_>>().join(" AND ")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn proposed_views_cost_no_more_than_the_optimum(
        which in 0..COLLECTIONS.len(),
        queries in proptest::collection::vec(query(), 1..6),
    ) {
        let schema = Schema::parse(COLLECTIONS[which]).unwrap();
        let collection = &schema.collections[0];
        let proposed = design(collection, &asked(&queries)).unwrap();
        prop_assert!(proposed.is_minimal);
        let base = vec![Arc::new(SortOrder::base(collection))];
        let bound = queries.iter().map(|(filter, order_by)| {
            bind::query(collection, &with_values(collection, filter), order_by).unwrap()
        });
        let unserved: Vec<Query> = bound
            .filter(|query| planner::plan(collection, &base, &Arc::new(query.clone()), &Wishes::default()).is_err())
            .collect();
        let best = least(collection, &all_views(collection), &unserved);
        let views = proposed.views.iter().map(|one| &one.view);
        let costs = (
            views.clone().count(),
            views.clone().filter(|view| view.partition.is_empty()).count(),
            Reverse(views.clone().map(|view| view.partition.len()).sum::<usize>()),
            views.map(|view| view.partition.len() + view.order.len()).sum::<usize>(),
        );
        prop_assert_eq!(costs, best, "{:?}", proposed.views.iter().map(|view| &view.sort_order).collect::<Vec<_>>());
    }
}
