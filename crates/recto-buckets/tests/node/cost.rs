//! Measurements of the cost of requests. The durations are printed but not checked, because other tests
//! run concurrently.

use std::time::{Duration, Instant};

use recto_model::Cells;
use recto_model::table::Direction;
use recto_protocol::buckets::sizing::Sizing;
use recto_protocol::buckets::{Protocol, Shards};
use recto_store::{Mutation, Operation, PartitionWrite, Stamp, WriteOptions, WriteOutcome};

use crate::calls::Call;
use crate::process::{Process, Setting, short_protocol};

/// Number of turns, in which the kinds of writes alternate.
const TURNS: i64 = 20;
const WRITES: i64 = 250;
/// Number of rows of a flow of rows, and the number of rows that arrive in each of its turns.
const FLOW: i64 = 30_000;
const AT_ONCE: i64 = 50;
const EACH_TURN: Duration = Duration::from_millis(25);

/// Writes a row as a table without buckets would be written.
async fn write_plainly(process: &Process, at: i64, text: &[u8]) {
    let partition = [&b"plain"[..], &0_i64.to_be_bytes()];
    let put = Operation::Put {
        clustering: std::iter::once(Some(&at.to_be_bytes()[..])).collect(),
        cells: [None, None, Some(text)].into_iter().collect(),
        replace: true,
    };
    let stamp = Stamp(recto_model::Environment::system().now_micros());
    let write = PartitionWrite {
        table: std::sync::Arc::clone(&process.table),
        partition: partition.into_iter().map(Some).collect::<Cells>(),
        mutations: vec![Mutation {
            operation: put,
            stamp: Some(stamp),
            ttl_seconds: None,
        }],
    };
    let outcome = process.store.write(write, WriteOptions::default()).await;
    assert!(matches!(outcome, Ok(WriteOutcome::Done)), "{outcome:?}");
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_is_about_one_request() {
    let setting = Setting {
        direction: Direction::Ascending,
        sizing: Sizing::new(10_000_000, 64 << 10, 1e-6).unwrap(),
        stream: "costs".to_owned(),
        protocol: Protocol::default(),
        shards: Shards::ONE,
    };
    let process = Process::start(&setting, 0).await;
    let text = [b'x'; 930];
    let (mut ratios, mut ours, mut plain) = (Vec::new(), Vec::new(), Vec::new());
    let started = Instant::now();
    for turn in 0..TURNS {
        let begun = Instant::now();
        for at in 0..WRITES {
            process.put(turn * WRITES + at, &text).await.unwrap();
        }
        let of_ours = begun.elapsed();
        let begun = Instant::now();
        for at in 0..WRITES {
            write_plainly(&process, turn * WRITES + at, &text).await;
        }
        let of_plain = begun.elapsed();
        ratios.push(of_ours.as_secs_f64() / of_plain.as_secs_f64());
        let micros = |time: Duration| time.as_secs_f64() * 1e6 / WRITES as f64;
        ours.push(micros(of_ours));
        plain.push(micros(of_plain));
    }
    println!(
        "a write: {:.0} µs, {:.0} µs where nothing is kept in pieces: {:.2} times as much",
        median(ours),
        median(plain),
        median(ratios)
    );
    let calls = |table: &str, call| process.calls.of(table, call);
    let rows = TURNS * WRITES;
    println!("{rows} rows: {:?}", process.calls.all());
    assert_eq!(calls("rising", Call::Write), 2 * rows.unsigned_abs());
    // A cached range map expires, so a slow machine reads more range maps. Do not count these
    // reads.
    let lives = started.elapsed().as_millis() / u128::from(Protocol::default().short_life_ms);
    let reads = calls("recto_buckets", Call::Read).saturating_sub(u64::try_from(lives).unwrap());
    let beside = calls("recto_samples", Call::Write) + reads;
    assert!(
        beside * 100 <= 2 * rows.unsigned_abs(),
        "{beside} requests beside {rows}"
    );
    assert_eq!(calls("recto_buckets", Call::SerialRead), 0);
}

/// Checks that a flow of rows with increasing keys needs few conditional writes. A bucket has as many rows
/// as a bucket of 10 MB with rows of 600 bytes.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "slow: a flow of 30,000 rows, minutes in all"]
async fn a_flow_costs_few_conditional_writes() {
    let setting = Setting {
        direction: Direction::Descending,
        sizing: Sizing::new(1 << 20, 300, 1e-6).unwrap(),
        stream: "flows".to_owned(),
        protocol: short_protocol(),
        shards: Shards::ONE,
    };
    let process = Process::start(&setting, 0).await;
    let _working = process.works();
    for turn in 0..FLOW / AT_ONCE {
        let begun = Instant::now();
        let all = (0..AT_ONCE).map(|at| process.put(turn * AT_ONCE + at, &[b'x'; 90]));
        for written in futures::future::join_all(all).await {
            written.unwrap();
        }
        tokio::time::sleep(EACH_TURN.saturating_sub(begun.elapsed())).await;
    }
    let calls = |table: &str, call| process.calls.of(table, call);
    let per_million = |calls: u64| calls * 1_000_000 / FLOW.unsigned_abs();
    let pieces = process.directory().await[0].pieces.len();
    println!(
        "{FLOW} rows in {pieces} pieces; per million rows {} conditional writes, {} directory reads, {} serial ones, \
         {} reads of samples: {:?}",
        per_million(calls("recto_buckets", Call::Cas)),
        per_million(calls("recto_buckets", Call::Read)),
        per_million(calls("recto_buckets", Call::SerialRead)),
        per_million(calls("recto_samples", Call::Read)),
        process.calls.all()
    );
    assert!(pieces > 5, "{pieces} pieces");
    let conditional = calls("recto_buckets", Call::Cas);
    assert!(
        conditional <= 6 * pieces as u64,
        "{conditional} conditional writes for {pieces} pieces"
    );
}
