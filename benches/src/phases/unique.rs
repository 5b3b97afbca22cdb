//! Phase: inserts of records with a unique field, compared with inserts without a unique field, and
//! with two hand-written `IF NOT EXISTS` inserts.

use std::sync::atomic::{AtomicI32, Ordering};

use futures::StreamExt as _;
use recto::{Collection, DynamicRecord, Recto, StoreAddress};
use serde_json::json;
use tokio::runtime::Runtime;

use super::stores;
use crate::measure::{Contender, interleaved};
use crate::peers::pair_by_hand::PairByHand;
use crate::report::{Section, Table};
use crate::world::World;

const SCHEMA: &str = r#"
[collection.plain]
fields = { id = "int", email = "text", name = "text" }
key = ["id"]

[collection.named]
fields = { id = "int", email = "text", name = "text" }
key = ["id"]
unique = ["email"]
"#;

const INSERTS: i32 = 200;
const ROUNDS: usize = 20;
/// Numbers of concurrent inserts to measure.
const AT_ONCE: [usize; 2] = [1, 16];

pub(super) fn run(world: &mut World) -> Result<Section, String> {
    let rounds = world.arguments.rounds(ROUNDS);
    let runtime = stores::runtime();
    let mut section = Section {
        title: "Inserts with a unique field".to_owned(),
        text: format!(
            "A record of three fields without views. The hand-written program inserts an email address into a table of its \
             own and then the record, each `IF NOT EXISTS`. If it crashes in between, the address stays taken. Recto also \
             reads the record and stores an intent, so that another process releases the address. {rounds} rounds of \
             {INSERTS} inserts."
        ),
        ..Section::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let embedded = StoreAddress::Embedded(folder.path().join("unique"));
    let address = stores::cassandra(world, "unique");
    let keyspace = address.keyspace.clone();
    let cassandra = StoreAddress::Cassandra(Box::new(address));
    let recto = stores::open(&runtime, &embedded, Some(SCHEMA))?;
    measure(world, &runtime, ("embedded", &recto, None), rounds, &mut section);
    let recto = stores::open(&runtime, &cassandra, Some(SCHEMA))?;
    let by_hand = PairByHand::connect(&world.arguments.cassandra, &keyspace);
    let by_hand = runtime.block_on(by_hand);
    measure(
        world,
        &runtime,
        ("Cassandra", &recto, Some(&by_hand)),
        rounds,
        &mut section,
    );
    Ok(section)
}

async fn insert(collection: &Collection<DynamicRecord>, id: i32) {
    let record = json!({ "id": id, "email": format!("{id}@example.org"), "name": "Ada" });
    let record = DynamicRecord::from_json(collection.definition(), record.as_object().unwrap()).unwrap();
    collection.insert(&record).await.unwrap();
}

fn measure(
    world: &mut World,
    runtime: &Runtime,
    (store, recto, by_hand): (&str, &Recto, Option<&PairByHand>),
    rounds: usize,
    section: &mut Section,
) {
    let mut columns = vec!["", "no unique field", "one", "one / none"];
    if by_hand.is_some() {
        columns.extend(["by hand", "one / by hand"]);
    }
    let mut table = Table::new(format!("{store}, insert, µs"), &columns);
    let [plain, named] = ["plain", "named"].map(|name| recto.dynamic(name).unwrap());
    let next = AtomicI32::new(0);
    for at_once in AT_ONCE {
        world.progress.say(&format!("{store}, {at_once} at a time"));
        let ids = || {
            let first = next.fetch_add(INSERTS, Ordering::Relaxed);
            futures::stream::iter(first..first + INSERTS)
        };
        let of = |name, collection: &'static str| {
            let collection = if collection == "plain" { &plain } else { &named };
            Contender::new(name, move || {
                let inserts = ids().map(|id| insert(collection, id));
                runtime.block_on(inserts.buffer_unordered(at_once).collect::<()>());
                INSERTS as usize
            })
        };
        let mut contenders = vec![of("none", "plain"), of("one", "named")];
        contenders.extend(by_hand.map(|hand| {
            Contender::new("by hand", move || {
                let inserts = ids().map(|id| hand.insert(id));
                runtime.block_on(inserts.buffer_unordered(at_once).collect::<()>());
                INSERTS as usize
            })
        }));
        let measured = interleaved(&mut contenders, rounds);
        let mut row = vec![
            measured[0].median(),
            measured[1].median(),
            measured[1].over(&measured[0]),
        ];
        if let Some(hand) = measured.get(2) {
            row.extend([hand.median(), measured[1].over(hand)]);
        }
        table.push(format!("{at_once} at a time"), row.into_iter().map(Some));
    }
    section.tables.push(table);
}
