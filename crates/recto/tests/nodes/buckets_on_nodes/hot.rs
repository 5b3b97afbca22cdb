//! Tests in which eight processes write the same partitions, read pages of them, and split their
//! buckets. In longer runs, the processes write without pauses.

use std::process::Child;
use std::sync::mpsc::channel;
use std::time::Duration;

use super::children::{Children, MAX_OWNERS};
use super::lists::schema;
use super::said::ListReports;
use super::scale;
use super::settled::settle;
use crate::common::children::kill;
use crate::common::{Fresh, Kind, run};

const PROCESSES: i64 = MAX_OWNERS;
const HOUR_MICROS: i64 = 3_600_000_000;
/// Time for which the processes write. It is long enough for a complete split of a bucket and a
/// part of the next split.
const STORM: Duration = Duration::from_secs(24);
/// Pause of a writer between two writes in a short run, which shares the machine with other tests.
/// In a longer run, writers do not pause.
const REST: Duration = Duration::from_millis(80);
/// Minimum share, in tenths, of the writes that must be known to have succeeded.
const KNOWN_OF_TEN: usize = 9;

/// Runs eight processes and checks the lines that they printed. If `is_apart` is true, their clocks
/// are an hour apart, and each process writes only its own keys.
fn storm(is_apart: bool) {
    let fresh = Fresh::new(Kind::Cassandra);
    run(async {
        let recto = fresh.open().await;
        recto.apply(&schema()).await.unwrap();
        recto.close().await.unwrap();
    });
    let (lines, heard) = channel();
    let children = Children {
        address: fresh.address.to_string(),
        lines,
        rest: if scale() == 1 { REST } else { Duration::ZERO },
    };
    let spawn = |index: i64| {
        // No clock may be fast, because a process refuses to write if its clock is ahead of the
        // node's clock.
        let off_micros = if is_apart {
            (index % 3 - 2) * HOUR_MICROS
        } else {
            0
        };
        children.spawn(
            usize::try_from(index).unwrap(),
            is_apart.then_some(index),
            off_micros,
        )
    };
    let mut living: Vec<Child> = (0..PROCESSES).map(spawn).collect();
    std::thread::sleep(STORM * scale());
    living.iter_mut().for_each(kill);
    drop(children);
    let mut said = ListReports::default();
    for line in &heard {
        said.hear(&line);
    }
    let [tried, done, pages] = said.counts();
    println!("{tried} rows, {done} known to be written, {pages} pages");
    said.check().unwrap();
    run(settle(&fresh.address.to_string(), &mut said));
    said.check().unwrap();
    assert!(done * 10 > tried * KNOWN_OF_TEN, "{done} of {tried}");
}

#[test]
#[ignore = "slow: eight processes keep both processors busy, two minutes"]
fn writes_and_pages_with_clocks_an_hour_apart() {
    storm(true);
}

#[test]
#[ignore = "slow: eight processes keep both processors busy, two minutes"]
fn eight_processes_delete_each_others_rows() {
    storm(false);
}
