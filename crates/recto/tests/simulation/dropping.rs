//! A view is dropped while another process is in the middle of a plain write, which has an entry there: it is waited for.
//! (Who changes a record asks the catalog when a table is gone, and goes on.)

use std::sync::Arc;
use std::time::Duration;

use recto::schema::Schema;
use recto::store::Store;
use recto::store::memory::MemoryStore;
use recto::{ApplyOptions, DynamicRecord, Environment, OpenOptions, Recto};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::broken::{Broken, BrokenStore};
use crate::clock::{Clock, Clocks};
use crate::gate::Gate;
use crate::world::LIMITS;

const EVENTS: &str = r#"
[collection.events]
fields = { id = "int", what = "text" }
key = ["id"]
writes = "append"
"#;
const BY_WHAT: &str = r#"
[collection.events.view.by_what]
partition = ["what"]
"#;
/// How long a request takes, there or back.
const WAY: Duration = Duration::from_millis(10);
/// Not as long as those who read are waited for, before those who write are.
const BEFORE: Duration = Duration::from_secs(12);
/// When the write is on its way.
const SENT: Duration = Duration::from_millis(5);
/// How long the process is frozen: it has its lease when it is let go.
const FROZEN: Duration = Duration::from_secs(9);

async fn put(recto: &Recto, id: i32) -> recto::Result<()> {
    let events = recto.dynamic("events")?;
    let event = json!({ "id": id, "what": "moved" });
    let event = DynamicRecord::from_json(events.definition(), event.as_object().unwrap())?;
    events.put(&event).await.map(drop)
}

/// Whether who writes is not told of it, when the store keeps all its promises but perhaps one.
pub(crate) async fn a_view_is_dropped_beside_a_write(broken: Option<Broken>) -> Result<(), String> {
    let clock = Arc::new(Clock::new(Instant::now(), 0, 1));
    let environment = Environment::new(Clocks(Arc::clone(&clock)));
    let options = OpenOptions::new().environment(environment.clone());
    let memory: Arc<dyn Store> = Arc::new(MemoryStore::with_limits(environment, LIMITS));
    let open = |store: Arc<dyn Store>| Recto::with_store(store, options.clone());
    let store = match broken {
        Some(broken) => Arc::new(BrokenStore::new(Arc::clone(&memory), broken, &clock)) as Arc<dyn Store>,
        None => Arc::clone(&memory),
    };
    let drops = open(store).await.unwrap();
    let before = Schema::parse(&format!("{EVENTS}{BY_WHAT}")).unwrap();
    drops.apply(&before).await.unwrap();
    let gate = Gate::steady(Arc::clone(&memory), WAY);
    let writes = open(Arc::new(gate.clone())).await.unwrap();
    put(&writes, 1).await.unwrap();
    let (begun, after) = (Instant::now(), Schema::parse(EVENTS).unwrap());
    let dropping = async {
        let options = ApplyOptions::new().remove("events.by_what");
        drops.apply_with(&after, &options).await.unwrap();
        begun.elapsed()
    };
    let writing = async {
        sleep(BEFORE).await;
        let frozen = async {
            sleep(SENT).await;
            gate.open(false);
            sleep(FROZEN).await;
            gate.open(true);
        };
        tokio::join!(put(&writes, 2), frozen).0
    };
    let (took, written) = tokio::join!(dropping, writing);
    println!("the view is dropped after {took:?}, {broken:?}");
    written.map_err(|error| error.to_string())?;
    put(&writes, 3).await.map_err(|error| error.to_string())
}
