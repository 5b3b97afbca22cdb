//! Phase: pages that start at random rows, with caches that hold a tenth of the data.

use crate::measure::{Contender, Measured, interleaved};
use crate::peers::sqlite::Layout;
use crate::peers::{Filter, Peer, Question, Start, count};
use crate::report::{Section, Table};
use crate::world::{Cache, Data, World};

use super::pages::COLUMNS;

/// Number of pages that each compared program reads in a round.
const PAGES: usize = 100;
const ROUNDS: usize = 20;
/// Number of different rows at which pages start. Their pages together do not fit into the caches.
const STARTS: usize = 20_000;
/// Seed of the random generator, so that every run reads the same pages.
const SEED: u64 = 7;

pub(super) fn run(world: &mut World) -> Result<Section, String> {
    let rounds = world.arguments.rounds(ROUNDS);
    world.data()?.start_postgresql(Cache::Tenth);
    let data = world.data()?;
    let mut ours = data.ours(Cache::Tenth);
    let mut indexed = data.sqlite(Layout::Indexed, Cache::Tenth);
    let mut without_rowid = data.sqlite(Layout::WithoutRowid, Cache::Tenth);
    let mut postgresql = data.postgresql();
    let bytes = Data::cache_bytes(Cache::Tenth, &data.recto_file());
    world.progress.say("starting rows in all parts of the data");
    let (starts, questions) = (
        anywhere(&mut ours, data_rows(world)?),
        [(20, false), (20, true), (100, false)],
    );
    let mut table = Table::new(
        "Pages of one carrier",
        // Leave out the last column, the depth, because the pages start at random rows.
        &COLUMNS[..COLUMNS.len() - 1],
    );
    for (rows, backward) in questions {
        let question = Question {
            filter: Filter::Equal,
            backward,
            rows,
            span: (0, 0),
        };
        world.progress.say(&format!("{rows} rows"));
        let mut everyone: Vec<(&'static str, &mut dyn Peer)> = vec![
            ("Recto", &mut ours),
            ("SQLite", &mut indexed),
            ("WITHOUT ROWID", &mut without_rowid),
        ];
        if let Some(postgresql) = &mut postgresql {
            everyone.push(("PostgreSQL", postgresql));
        }
        let measured = measure(everyone, &question, &starts, rounds);
        let medians = (0..4).map(|index| measured.get(index).map(Measured::median));
        let ratios = (1..4).map(|index| Some(measured.get(index)?.over(&measured[0])));
        let way = if backward { "backward" } else { "forward" };
        table.push(
            format!("{rows} rows {way}"),
            medians.chain(ratios).collect::<Vec<_>>(),
        );
    }
    Ok(Section {
        title: "Pages with a cache a tenth of the data".to_owned(),
        text: format!(
            "The cache of each contender is a tenth of its files (Recto: {} MB). The system's file cache is not \
             limited. Pages are anywhere in the largest partition. {rounds} rounds of {PAGES} pages.",
            bytes >> 20
        ),
        tables: vec![table],
        ..Section::default()
    })
}

fn data_rows(world: &mut World) -> Result<u64, String> {
    Ok(world.data()?.deepest())
}

/// Returns rows of the whole partition in random order, at which measured pages start.
fn anywhere(ours: &mut crate::peers::ours::Ours, rows: u64) -> Vec<Start> {
    let question = Question {
        filter: Filter::Equal,
        backward: false,
        rows: 20,
        span: (0, 0),
    };
    let rows = rows.saturating_sub(200);
    let apart = (rows / STARTS as u64).max(1) as u32;
    let count = STARTS.min((rows / u64::from(apart)) as usize - 10);
    let mut starts = ours.starts(&question, 100, count, apart);
    fastrand::Rng::with_seed(SEED).shuffle(&mut starts);
    starts
}

fn measure(
    everyone: Vec<(&'static str, &mut dyn Peer)>,
    question: &Question,
    starts: &[Start],
    rounds: usize,
) -> Vec<Measured> {
    let mut contenders: Vec<Contender<'_>> = everyone
        .into_iter()
        .map(|(name, peer)| {
            let mut from = 0;
            Contender::new(name, move || {
                let pages = &starts[from..(from + PAGES).min(starts.len())];
                from = if from + 2 * PAGES > starts.len() {
                    0
                } else {
                    from + PAGES
                };
                count(peer, question, pages, false);
                pages.len()
            })
        })
        .collect();
    interleaved(&mut contenders, rounds)
}
