//! Phase: pages of views, compared with pages of the collection's base table.

use std::hint::black_box;
use std::path::Path;

use recto::PageQuery;

use crate::flights::{CARRIER, Flight};
use crate::measure::{Contender, interleaved};
use crate::peers::ours;
use crate::report::{Section, Table, Target};
use crate::world::World;

pub(super) const TEXT: &str = "Pages of 20 flights are from the collection's own sort order and from views with the \
    same order. A view with keys only reads each record by its key.";

const ROWS: u64 = 336_776;
const QUICK_ROWS: u64 = 20_000;
const PAGE_ROWS: u32 = 20;
/// Number of rows before the measured pages, except the first pages.
const DEPTH: u32 = 500;
const PAGES: usize = 500;
const ROUNDS: usize = 15;

const VIEWS: &str = "
[collection.flights.view.whole]
partition = [\"carrier\"]
order = [\"-time_hour\"]

[collection.flights.view.narrow]
partition = [\"carrier\"]
order = [\"-time_hour\"]
fields = []
";

pub(super) fn run(world: &mut World, folder: &Path, section: &mut Section) {
    let rounds = world.arguments.rounds(ROUNDS);
    let rows = if world.arguments.quick { QUICK_ROWS } else { ROWS };
    let runtime = ours::runtime();
    world.progress.say("storing the flights with two views");
    let recto = runtime.block_on(async {
        let recto = super::open(&folder.join("pages"), &super::flights(VIEWS)).await;
        super::store(&recto, rows).await;
        recto
    });
    let flights = recto.collection::<Flight>().unwrap();
    let query = |view: &str| {
        let query = flights
            .query()
            .filter(format!("carrier = \"{CARRIER}\""))
            .view(view);
        query.page_size(PAGE_ROWS)
    };
    let queries = ["primary", "whole", "narrow"].map(query);
    let mut table = Table::new(
        "",
        &[
            "page, µs",
            "own sort order",
            "view with all fields",
            "view with keys only",
            "all fields / own",
            "keys only / own",
        ],
    );
    for (name, is_first) in [("first", true), ("after a row", false)] {
        world.progress.say(&format!("pages of views, {name}"));
        let asked: Vec<PageQuery<Flight>> = queries
            .iter()
            .map(|query| {
                if is_first {
                    query.clone()
                } else {
                    deep(&runtime, query)
                }
            })
            .collect();
        let page = |query: &PageQuery<Flight>| {
            let page = runtime.block_on(query.clone().into_future()).unwrap();
            black_box(page.next_cursor().map(|cursor| cursor.as_str().len()));
            page
        };
        let (own, whole, narrow) = (page(&asked[0]), page(&asked[1]), page(&asked[2]));
        assert!(own.items() == whole.items() && own.items() == narrow.items());
        let contender = |name, query| {
            Contender::new(name, move || {
                (0..PAGES).map(|_| black_box(page(query)).len().min(1)).sum()
            })
        };
        let mut contenders = vec![
            contender("own", &asked[0]),
            contender("view", &asked[1]),
            contender("narrow", &asked[2]),
        ];
        let measured = interleaved(&mut contenders, rounds);
        let [own, whole, narrow] = [&measured[0], &measured[1], &measured[2]];
        let figures = [
            own.median(),
            whole.median(),
            narrow.median(),
            whole.over(own),
            narrow.over(own),
        ];
        table.push(name, figures.map(Some));
        section.targets.push(Target::at_most(
            format!("embedded, page of 20, {name}: view / own sort order"),
            1.1,
            whole.over(own),
        ));
    }
    section.tables.push(table);
}

/// Returns the query for the page after the first [`DEPTH`] rows.
fn deep(runtime: &tokio::runtime::Runtime, query: &PageQuery<Flight>) -> PageQuery<Flight> {
    let way = runtime
        .block_on(query.clone().first(DEPTH).into_future())
        .unwrap();
    let next = way.next_cursor().expect("there are more rows");
    query.clone().after(next)
}
