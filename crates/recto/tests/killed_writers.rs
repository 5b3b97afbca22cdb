//! Processes that change few hot records on a real Cassandra, and are killed at random moments, again and again: in the
//! end each view has exactly the current version's entries, and every acknowledged change is there, once.
//!
//! `RECTO_TEST_SCALE=20` kills twenty times as often, for a long run.
#![allow(clippy::unwrap_used, clippy::print_stdout, dead_code)]

#[path = "simulation/check.rs"]
mod check;
#[path = "common/mod.rs"]
mod common;
#[path = "simulation/history.rs"]
mod history;
#[path = "simulation/records.rs"]
mod records;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use common::{Fresh, Kind, run};
use recto::schema::Schema;
use recto::{ErrorKind, OpenOptions, Recto};
use recto_testkit::generate::Rng;
use recto_views::Version;

use crate::check::Checked;
use crate::history::{History, Said};
use crate::records::{COLLECTION, Fields, LEDGERS, RECORDS, Tables};

/// Says to a child process which store to open.
const ADDRESS: &str = "RECTO_TEST_ADDRESS";
/// Says to it at which number the entries of its logs begin.
const FIRST_ENTRY: &str = "RECTO_TEST_FIRST_ENTRY";
const SCALE_VARIABLE: &str = "RECTO_TEST_SCALE";
const PROCESSES: usize = 3;
/// How often one of them is killed.
const KILLS: usize = 9;
const CLIENTS: u64 = 4;
const ENTRIES_OF_A_PROCESS: u64 = 1_000_000;
const TIME: Duration = Duration::from_secs(10);

async fn open(address: &str) -> Recto {
    let recto = Recto::open_with(address, OpenOptions::new().create())
        .await
        .unwrap();
    recto.assume((*Tables::new().schema).clone());
    recto
}

#[test]
#[ignore = "run as a child process by the test below"]
fn writer_that_gets_killed() {
    let address = std::env::var(ADDRESS).unwrap();
    let first: u64 = std::env::var(FIRST_ENTRY).unwrap().parse().unwrap();
    run(async {
        let recto = open(&address).await;
        let tables = Tables::new();
        let clients = (0..CLIENTS).map(|client| change(&recto, &tables, first + client));
        futures::future::join_all(clients).await;
    });
}

/// Changes records until it is killed, and says what it is told.
async fn change(recto: &Recto, tables: &Tables, first: u64) {
    for turn in 0.. {
        let entry = first + turn * CLIENTS;
        let id = (entry % u64::from(RECORDS.unsigned_abs())) as i32;
        let place = |end: u64| Some((entry / 7 % end) as u8).filter(|place| *place > 0);
        let fields = Fields {
            status: place(4),
            at: place(5).map(i32::from),
            log: format!("{entry},"),
            note: place(3),
        };
        let key = records::key(id);
        if id >= LEDGERS {
            let asked = match turn % 3 {
                0 => records::delete(),
                1 => records::move_to(fields.status, fields.at, fields.note),
                _ => records::put(id, &fields, None, None),
            };
            if let Ok(Ok((version, _))) = recto.change_record(COLLECTION, key, asked, TIME).await {
                println!("moved {id} 0 {}", version.0);
            }
            continue;
        }
        let Some(found) = tables.read(&**recto.store(), id, None).await else {
            continue;
        };
        let asked = match found.row.and_then(|row| Some((row.version, row.record?))) {
            None => records::insert(id, &fields),
            Some((version, record)) => {
                let log = Fields::of(&record).log + &fields.log;
                records::put(id, &Fields { log, ..fields }, None, Some(version))
            }
        };
        println!("asked {id} {entry} 0");
        match recto.change_record(COLLECTION, key, asked, TIME).await {
            Ok(Ok((version, _))) => println!("applied {id} {entry} {}", version.0),
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown => {}
            Ok(Err(_)) | Err(_) => println!("refused {id} {entry} 0"),
        }
    }
}

fn spawn(address: &str, number: usize, lines: &Sender<String>) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "writer_that_gets_killed", "--nocapture"])
        .env(ADDRESS, address)
        .env(FIRST_ENTRY, (number as u64 * ENTRIES_OF_A_PROCESS).to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (output, lines) = (BufReader::new(child.stdout.take().unwrap()), lines.clone());
    std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                return;
            }
        }
    });
    child
}

/// Takes down what a process said.
fn hear(history: &History, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let [what, id, entry, version] = words[..] else {
        return;
    };
    let (Ok(id), Ok(entry), Ok(version)) = (id.parse(), entry.parse(), version.parse()) else {
        return;
    };
    let applied = Said::Applied(Version(version));
    match what {
        "asked" => history.says(id, Some(entry), None, Said::Unknown),
        "applied" => history.says(id, Some(entry), None, applied),
        "refused" => history.says(id, Some(entry), None, Said::NotApplied),
        "moved" => history.says(id, None, None, applied),
        _ => {}
    }
}

#[test]
fn what_killed_processes_left_is_made_whole() {
    let scale: usize = std::env::var(SCALE_VARIABLE).map_or(1, |text| text.parse().unwrap());
    let fresh = Fresh::new(Kind::Cassandra);
    let address = fresh.address.to_string();
    let tables = Tables::new();
    run(async {
        let recto = fresh.open().await;
        recto.apply(&Schema::default()).await.unwrap();
        for table in tables.all() {
            recto.store().create_table(&table).await.unwrap();
        }
    });
    let (sender, lines) = channel();
    let mut children: Vec<Child> = (0..PROCESSES)
        .map(|number| spawn(&address, number, &sender))
        .collect();
    let mut random: Rng = recto_testkit::generate::rng(7);
    for kill in 0..KILLS * scale {
        let millis = 500 + random.u64(0..2_000);
        std::thread::sleep(Duration::from_millis(millis));
        let child = &mut children[kill % PROCESSES];
        child.kill().unwrap();
        child.wait().unwrap();
        *child = spawn(&address, PROCESSES + kill, &sender);
    }
    for mut child in children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    drop(sender);
    let history = History::default();
    for line in lines {
        hear(&history, &line);
    }
    run(async {
        let recto = open(&address).await;
        let swept = recto.sweep(|swept| !swept.is_done()).await.unwrap();
        assert!(swept.waiting > 0, "{swept:?}");
        let store = &**recto.store();
        let checked = Checked {
            scanned: store,
            store,
            tables: &tables,
            history: &history,
        };
        checked
            .views()
            .await
            .unwrap_or_else(|wrong| panic!("{wrong}\n{}", history.text()));
        println!(
            "{} changes were applied, {} records resolved",
            history.applied(),
            recto.writer_metrics().resolved
        );
        recto.close().await.unwrap();
    });
}
