//! Phase: pages of a view that sorts text by the rules of a language (a collation), compared with
//! pages of a view that sorts the text by bytes.

use std::hint::black_box;

use futures::StreamExt as _;
use recto::{Collection, DynamicRecord, PageQuery, Recto, StoreAddress};
use serde_json::json;
use tokio::runtime::Runtime;

use super::stores;
use crate::measure::{Contender, interleaved};
use crate::report::{Section, Table, Target};
use crate::world::World;

const SCHEMA: &str = r#"
[collection.plain]
fields = { id = "int", team = "text", name = "text", city = "text" }
key = ["id"]
writes = "append"

[collection.plain.view.by_name]
partition = ["team"]
order = ["name"]

[collection.collated]
fields = { id = "int", team = "text", name = "text", city = "text" }
key = ["id"]
writes = "append"

[collection.collated.view.by_name]
partition = ["team"]
order = ["name"]
collate = "de"
"#;

/// Syllables from which the names in the test records are composed.
const PARTS: [&str; 24] = [
    "Mül", "ler", "Schä", "fer", "Groß", "mann", "Jä", "ger", "Köh", "Bäu", "Ber", "Hoff", "Wei", "ß", "Krö",
    "Stein", "lich", "berg", "dorf", "Wolf", "ner", "hardt", "Önder", "sen",
];
const RECORDS: i32 = 20_000;
const PAGES: usize = 50;
const ROUNDS: usize = 30;
/// Number of records that are inserted concurrently.
const AT_ONCE: usize = 64;
/// Target: maximum time of a page with a collation, as a multiple of the time without.
const WANTED: f64 = 1.15;

pub(super) fn run(world: &mut World) -> Result<Section, String> {
    let rounds = world.arguments.rounds(ROUNDS);
    let runtime = stores::runtime();
    let mut section = Section {
        title: "Names in the order of a language".to_owned(),
        text: format!(
            "Views of {RECORDS} records, ordered by a name of about 15 bytes, with `collate = \"de\"` and without. Pages have \
             20 records. {rounds} rounds of {PAGES} pages."
        ),
        ..Section::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let embedded = StoreAddress::Embedded(folder.path().join("collation"));
    let cassandra = StoreAddress::Cassandra(Box::new(stores::cassandra(world, "collation")));
    for (name, address) in [("embedded", embedded), ("Cassandra", cassandra)] {
        world.progress.say(&format!("storing names: {name}"));
        let recto = stores::open(&runtime, &address, Some(SCHEMA))?;
        runtime
            .block_on(fill(&recto))
            .map_err(|error| format!("{name}: {error}"))?;
        pages(world, &runtime, (name, &recto), rounds, &mut section);
    }
    Ok(section)
}

async fn fill(recto: &Recto) -> recto::Result<()> {
    for collection in ["plain", "collated"] {
        let names = recto.dynamic(collection)?;
        let puts = (0..RECORDS).map(|id| {
            let record = json!({ "id": id, "team": "red", "name": name(id), "city": "Köln" });
            let record = DynamicRecord::from_json(names.definition(), record.as_object().unwrap()).unwrap();
            let names = names.clone();
            async move { names.put(&record).await }
        });
        let mut puts = futures::stream::iter(puts).buffer_unordered(AT_ONCE);
        while let Some(put) = puts.next().await {
            put?;
        }
    }
    Ok(())
}

/// Returns the name in the record with the given id, which is the same in every run.
fn name(id: i32) -> String {
    let id = id.unsigned_abs() as usize;
    let part = |factor: usize| PARTS[id * factor / 7 % PARTS.len()];
    format!("{}{}{}, {}{}", part(5), part(31), part(11), part(3), part(17))
}

fn pages(
    world: &mut World,
    runtime: &Runtime,
    (store, recto): (&str, &Recto),
    rounds: usize,
    section: &mut Section,
) {
    let mut table = Table::new(
        format!("{store}, page of 20, µs"),
        &["", "by bytes", "collated", "collated / by bytes"],
    );
    let collections = ["plain", "collated"].map(|name| recto.dynamic(name).unwrap());
    let query = |collection: &Collection<DynamicRecord>, filter: &str| {
        let filter = format!("team = \"red\"{filter}");
        collection.query().filter(filter).order_by("name").page_size(20)
    };
    let first = |collection: &Collection<DynamicRecord>| query(collection, "");
    let after = |collection: &Collection<DynamicRecord>, way: &str| {
        let page = runtime.block_on(
            query(collection, " AND name > \"K\"")
                .page_size(200)
                .into_future(),
        );
        let cursor = page.unwrap().cursor(150).clone();
        let query = query(collection, " AND name > \"K\"");
        match way {
            "backward" => query.last(20).before(cursor),
            _ => query.after(cursor),
        }
    };
    let cases: [(&str, [PageQuery<DynamicRecord>; 2]); 4] = [
        ("first", collections.each_ref().map(first)),
        (
            "after a row",
            collections.each_ref().map(|one| after(one, "forward")),
        ),
        (
            "before a row",
            collections.each_ref().map(|one| after(one, "backward")),
        ),
        (
            "of a range",
            collections
                .each_ref()
                .map(|one| query(one, " AND name >= \"Köh\" AND name < \"S\"")),
        ),
    ];
    for (case, queries) in cases {
        world.progress.say(&format!("{store}, {case}"));
        let contender = |(name, query): (&'static str, PageQuery<DynamicRecord>)| {
            Contender::new(name, move || {
                runtime.block_on(async {
                    for _ in 0..PAGES {
                        let page = query.clone().await.unwrap();
                        assert_eq!(black_box(page).len(), 20);
                    }
                });
                PAGES
            })
        };
        let mut contenders: Vec<_> = ["by bytes", "collated"]
            .into_iter()
            .zip(queries)
            .map(contender)
            .collect();
        let measured = interleaved(&mut contenders, rounds);
        let ratio = measured[1].over(&measured[0]);
        table.push(
            case,
            [measured[0].median(), measured[1].median(), ratio].map(Some),
        );
        section.targets.push(Target::at_most(
            format!("{store}, page of 20, {case}: collated / by bytes"),
            WANTED,
            ratio,
        ));
    }
    section.tables.push(table);
}
