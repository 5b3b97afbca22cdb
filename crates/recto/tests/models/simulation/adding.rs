//! Simulation of a process that adds a view while another process changes a record and does not
//! know the view yet. The first process must wait for that change.

use std::time::Duration;

use recto_protocol::views::Version;
use tokio::time::{Instant, sleep};

use super::broken::Broken;
use super::check::Checked;
use super::history::{ChangeAnswer, History};
use super::records::{self, ChangeEffect, Fields, Place, RecordChange, Tables};
use super::two::Two;

/// Id of the record that the test changes.
const ID: i32 = 3;
/// Time after which the writer has read the record, and has sent the conditional write.
const READ: Duration = Duration::from_millis(25);
/// Time for which the writer is frozen. When it continues, it still has its lease.
const FROZEN: Duration = Duration::from_secs(8);

/// Adds a view during a change. Returns an error if the views do not agree with the new schema.
/// `broken` is a promise that the store breaks on purpose, or `None`.
pub(crate) async fn a_view_is_added_beside_a_change(broken: Option<Broken>) -> Result<(), String> {
    let Two {
        memory,
        applies: adds,
        writes,
        gate,
    } = Two::open(&Tables::new(false).schema, broken).await;
    let place = |which: u8| Place {
        status: Some(which),
        at: Some(i32::from(which)),
        note: Some(which),
    };
    let inserts = RecordChange::new(ID, ChangeEffect::Inserted(Fields::at(place(0))));
    inserts.ask(&writes).await.unwrap();
    let moves = RecordChange::new(ID, ChangeEffect::Moved(place(1)));
    let frozen = async {
        sleep(READ).await;
        gate.open(false);
        let begun = Instant::now();
        let let_go = async {
            sleep(FROZEN).await;
            gate.open(true);
        };
        let (changed, ()) = tokio::join!(records::change_schema(&adds, false), let_go);
        changed.unwrap();
        begun.elapsed()
    };
    let (moved, took) = tokio::join!(moves.ask(&writes), frozen);
    let history = History::default();
    history.says(
        ID,
        None,
        None,
        ChangeAnswer::Applied(Version(moved.unwrap().version)),
    );
    println!("the schema is changed after {took:?}, {broken:?}");
    let checked = Checked {
        scanned: &*memory,
        store: &*memory,
        tables: &records::changed_tables(&adds, false).await,
        history: &history,
    };
    checked.views().await.map(drop)
}
