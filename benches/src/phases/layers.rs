//! Phase: the layers of Recto that take part in reading a page, each measured alone on the same
//! rows.

use std::sync::Arc;
use std::time::Duration;

use recto::store::{ReadOptions, Store};
use recto_model::table::ReadDirection;
use recto_model::{Bound, Cells, Slice};

use crate::flights::CARRIER;
use crate::measure::{Contender, interleaved};
use crate::peers::ours::Ours;
use crate::peers::{Filter, Question, Start, count};
use crate::report::{Section, Table, Target};
use crate::world::{Cache, World};

/// Number of rows on a page. Each layer reads one row more, because Recto does so to learn whether
/// more rows follow.
const PAGE_ROWS: u32 = 20;
const STARTS: usize = 200;
const ROWS_APART: u32 = 40;
const DEPTH: u64 = 1_000;
const ROUNDS: usize = 60;

pub(super) fn run(world: &mut World) -> Result<Section, String> {
    let rounds = world.arguments.rounds(ROUNDS);
    let data = world.data()?;
    let mut ours = data.ours(Cache::Whole);
    let mut unsealed = ours.beside();
    unsealed.seal = false;
    let engine = data.engine(Cache::Whole);
    let question = Question {
        filter: Filter::Equal,
        backward: false,
        rows: PAGE_ROWS,
        span: (0, 0),
    };
    let mut tables = Vec::new();
    let mut targets = Vec::new();
    for depth in [0, DEPTH] {
        world.progress.say(&format!("depth {depth}"));
        let starts = ours.starts(&question, depth.max(1), STARTS, ROWS_APART);
        let keys = engine.keys(depth as usize, STARTS, ROWS_APART as usize);
        let slices = slices(&ours, &starts, depth == 0);
        let mut whole = ours.beside();
        let mut contenders = vec![
            Contender::new("the engine's read of 21 raw rows", || {
                let from = |key| (depth > 0).then_some(key);
                keys.iter()
                    .map(|key| engine.read(from(key.as_slice()), PAGE_ROWS + 1))
                    .sum::<usize>()
                    .min(STARTS)
            }),
            Contender::new("the store's slice of 21 rows", || read(&ours, &slices)),
            Contender::new("the page, rows decoded", || {
                count(&mut unsealed, &question, &starts, depth == 0);
                STARTS
            }),
        ];
        contenders.push(Contender::new("the page and its next cursor", || {
            count(&mut whole, &question, &starts, depth == 0);
            STARTS
        }));
        let names: Vec<&str> = contenders.iter().map(|contender| contender.name).collect();
        let measured = interleaved(&mut contenders, rounds);
        let place = if depth == 0 {
            "First page".to_owned()
        } else {
            format!("Page at depth {depth}")
        };
        let mut table = Table::new(place, &["layer", "µs", "/ engine"]);
        for (name, one) in names.iter().zip(&measured) {
            table.push(*name, [Some(one.median()), Some(one.over(&measured[0]))]);
        }
        tables.push(table);
        if depth == 0 {
            let what = "first page, rows decoded / the engine's read of 21 raw rows";
            targets.push(Target::at_most(what, 1.5, measured[2].over(&measured[0])));
        }
    }
    Ok(Section {
        title: "Layers of a page".to_owned(),
        text: format!(
            "One carrier, {PAGE_ROWS} rows, all data cached, {rounds} rounds of {STARTS} pages. Each line includes the \
             lines above. The engine's read does not use the keys and values. The slice verifies the checksum of each \
             row and returns its cells."
        ),
        tables,
        targets,
        ..Section::default()
    })
}

/// Returns the slices (ranges of rows) that Recto's query plan creates for the measured pages.
fn slices(ours: &Ours, starts: &[Start], at_end: bool) -> Vec<Slice> {
    let tables = ours.runtime.block_on(ours.recto.store().list_tables()).unwrap();
    let table = Arc::new(
        tables
            .into_iter()
            .find(|table| table.name() == "flights")
            .unwrap(),
    );
    let slice = |start: &Start| {
        let after: Cells = [
            Some(&start.time_hour.to_be_bytes()[..]),
            Some(&start.flight.to_be_bytes()[..]),
        ]
        .into_iter()
        .collect();
        Slice {
            table: Arc::clone(&table),
            partition: [Some(CARRIER.as_bytes())].into_iter().collect(),
            from: if at_end {
                Bound::start()
            } else {
                Bound::After(after)
            },
            to: Bound::end(),
            direction: ReadDirection::Forward,
            limit: PAGE_ROWS + 1,
        }
    };
    starts.iter().map(slice).collect()
}

fn read(ours: &Ours, slices: &[Slice]) -> usize {
    let options = ReadOptions {
        timeout: Duration::from_secs(5),
        ..ReadOptions::default()
    };
    let store: &Arc<dyn Store> = ours.recto.store();
    for slice in slices {
        let snapshot = store.snapshot().unwrap();
        let read = snapshot
            .slice_now(slice, &options)
            .expect("the embedded store answers at once");
        assert_eq!(
            std::hint::black_box(read.unwrap()).rows.len(),
            slice.limit as usize
        );
    }
    slices.len()
}
