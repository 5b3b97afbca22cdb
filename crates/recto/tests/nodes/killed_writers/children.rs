//! Child processes that change a few records concurrently until they are killed. They print a line
//! for each answer.

use std::process::Child;
use std::sync::mpsc::Sender;
use std::time::Duration;

use recto::{ErrorKind, OpenOptions, Recto};
use recto_protocol::views::Version;

use super::history::{ChangeAnswer, History};
use super::records::{ChangeEffect, Fields, LEDGERS, Place, RECORDS, RecordChange, Tables};
use crate::common::children;
use crate::common::clocks::Clocks;

/// Environment variable that tells a child process the address of the store.
const ADDRESS: &str = "RECTO_TEST_ADDRESS";
/// Environment variable that tells a child process the id of the first entry that it appends to a
/// ledger (a record with a list of entries).
const FIRST_ENTRY: &str = "RECTO_TEST_FIRST_ENTRY";
/// Environment variable that tells a child process the error of its wall clock, in microseconds.
const CLOCK_OFF: &str = "RECTO_TEST_CLOCK_OFF_MICROS";
const CLIENTS: u64 = 4;
const ENTRIES_OF_A_PROCESS: u64 = 1_000_000;
/// Pause of a client after each change, which leaves processor time to other processes.
const PAUSE: Duration = Duration::from_millis(20);
/// Pause of a client after a rejected change, because its reason may last for some time.
const REFUSED_PAUSE: Duration = Duration::from_millis(20);

/// Runs in a child process: changes records until the process is killed. The schema must already be
/// applied.
pub(crate) async fn change_until_killed() {
    let variable = |name: &str| std::env::var(name).unwrap();
    let first: u64 = variable(FIRST_ENTRY).parse().unwrap();
    let clocks = Clocks::off_by(variable(CLOCK_OFF).parse().unwrap());
    let options = OpenOptions::new().environment(clocks.environment());
    let recto = loop {
        match Recto::open_with(&*variable(ADDRESS), options.clone()).await {
            Ok(recto) => break recto,
            // A node may be down, so try again.
            Err(error) => println!("not opened: {error}"),
        }
    };
    let tables = Tables::new(false);
    let clients = (0..CLIENTS).map(|client| change(&recto, &tables, first + client));
    futures::future::join_all(clients).await;
}

/// Changes records until the process is killed. Prints a line for each answer to a change. `first`
/// is the id of the first entry that the client appends.
async fn change(recto: &Recto, tables: &Tables, first: u64) {
    for turn in 0.. {
        tokio::time::sleep(PAUSE).await;
        let entry = first + turn * CLIENTS;
        let id = (entry % u64::from(RECORDS.unsigned_abs())) as i32;
        let part = |end: u64| Some((entry / 7 % end) as u8).filter(|part| *part > 0);
        let place = Place {
            status: part(4),
            at: part(5).map(i32::from),
            note: part(3),
        };
        // There are fewer handles (unique values) than records, so records compete for the handles.
        let handle = part(3);
        if id >= LEDGERS {
            let becomes = match turn % 3 {
                0 => ChangeEffect::Deleted,
                1 => ChangeEffect::Moved(place),
                _ => ChangeEffect::Put(Fields {
                    handle,
                    ..Fields::at(place)
                }),
            };
            match RecordChange::new(id, becomes).ask(recto).await {
                Ok(changed) => println!("moved {id} 0 {}", changed.version),
                Err(_) => tokio::time::sleep(REFUSED_PAUSE).await,
            }
            continue;
        }
        let Some(found) = tables.read(&**recto.store(), id, None).await else {
            tokio::time::sleep(REFUSED_PAUSE).await;
            continue;
        };
        let found = found.row.and_then(|row| Some((row.version, row.record?)));
        let log = found.as_ref().map(|(_, record)| Fields::of(record).log);
        let log = log.unwrap_or_default() + &format!("{entry},");
        let fields = Fields { place, log, handle };
        let asked = match found {
            None => RecordChange::new(id, ChangeEffect::Inserted(fields)),
            Some((version, _)) => RecordChange {
                if_version: Some(version),
                ..RecordChange::new(id, ChangeEffect::Put(fields))
            },
        };
        println!("asked {id} {entry} 0");
        match asked.ask(recto).await {
            Ok(changed) => println!("applied {id} {entry} {}", changed.version),
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown => {}
            Err(_) => {
                println!("refused {id} {entry} 0");
                tokio::time::sleep(REFUSED_PAUSE).await;
            }
        }
    }
}

/// Starter of child processes. A test receives the lines that they print through the channel
/// `lines`.
pub(crate) struct Children<'a> {
    pub(crate) address: String,
    pub(crate) lines: Sender<String>,
    /// Errors of the wall clocks of the processes, in microseconds. Each new process gets the next
    /// value of this list, and starts again at its beginning after its end.
    pub(crate) clocks_off_micros: &'a [i64],
}

impl Children<'_> {
    /// Starts the child process with the given index.
    pub(crate) fn spawn(&self, number: usize) -> Child {
        let off_micros = self.clocks_off_micros[number % self.clocks_off_micros.len()];
        let variables = [
            (ADDRESS, self.address.clone()),
            (FIRST_ENTRY, (number as u64 * ENTRIES_OF_A_PROCESS).to_string()),
            (CLOCK_OFF, off_micros.to_string()),
        ];
        children::spawn(
            children::path_of(super::writer_that_gets_killed),
            &variables,
            &self.lines,
        )
    }
}

/// Returns the history of requests and answers that the printed lines of child processes describe.
pub(crate) fn heard(lines: impl IntoIterator<Item = String>) -> History {
    let history = History::default();
    for line in lines {
        hear(&history, &line);
    }
    history
}

fn hear(history: &History, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let [what, id, entry, version] = words[..] else {
        return;
    };
    let (Ok(id), Ok(entry), Ok(version)) = (id.parse(), entry.parse(), version.parse()) else {
        return;
    };
    let applied = ChangeAnswer::Applied(Version(version));
    match what {
        "asked" => history.says(id, Some(entry), None, ChangeAnswer::Unknown),
        "applied" => history.says(id, Some(entry), None, applied),
        "refused" => history.says(id, Some(entry), None, ChangeAnswer::NotApplied),
        "moved" => history.says(id, None, None, applied),
        _ => {}
    }
}
