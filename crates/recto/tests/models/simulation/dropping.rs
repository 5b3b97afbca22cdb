//! Simulation of a process that drops a view while another process writes a record, and its row in
//! the view, without reading the record first. The drop must wait for the write. (A writer that
//! updates a record would read the catalog if a table no longer exists, and continue.)

use std::time::Duration;

use recto::schema::Schema;
use recto::{ApplyOptions, DynamicRecord, Recto};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::broken::Broken;
use super::two::Two;

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
/// Time between the start of the drop and the start of the write. The drop is then still waiting
/// for readers, and it waits for writers only afterwards.
const BEFORE: Duration = Duration::from_secs(12);
/// Time after which the write request is on its way to the store.
const SENT: Duration = Duration::from_millis(5);
/// Time for which the writer is frozen. When it continues, it still has its lease.
const FROZEN: Duration = Duration::from_secs(9);

async fn put(recto: &Recto, id: i32) -> recto::Result<()> {
    let events = recto.dynamic("events")?;
    let event = json!({ "id": id, "what": "moved" });
    let event = DynamicRecord::from_json(events.definition(), event.as_object().unwrap())?;
    events.put(&event).await.map(drop)
}

/// Drops a view during a write. Returns an error if the writer fails because of the dropped view.
/// `broken` is a promise that the store breaks on purpose, or `None`.
pub(crate) async fn a_view_is_dropped_beside_a_write(broken: Option<Broken>) -> Result<(), String> {
    let before = Schema::parse(&format!("{EVENTS}{BY_WHAT}")).unwrap();
    let Two {
        applies: drops,
        writes,
        gate,
        ..
    } = Two::open(&before, broken).await;
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
