//! Tests of time buckets: any process creates them before their first row, and reads return their rows in
//! order, even with many buckets.

use recto_model::width::{Width, WidthUnit};

use super::*;
use crate::list::Seek;

/// Number of days, each with a time bucket: more than one window (part) of a range map has.
pub(super) const DAYS: i64 = 600;
pub(super) const DAY_MS: i64 = 86_400_000;

pub(super) fn by_day(direction: Direction, shards: u8) -> Table {
    let plain = ColumnKind::Regular(WriteKind::Plain);
    let columns = vec![
        column("stream", Type::Text, ColumnKind::Partition),
        column("at", Type::Timestamp, ColumnKind::Clustering(direction)),
        column("text", Type::Text, plain),
        column("note", Type::Text, plain),
    ];
    let width = Width {
        count: 1,
        unit: WidthUnit::Day,
    };
    let buckets = Buckets {
        shards,
        ..Buckets::from(BucketBound::Time(width))
    };
    let options = TableOptions {
        buckets: Some(buckets),
        ..TableOptions::default()
    };
    Table::new("events", columns, options).expect("these columns are a table")
}

/// Returns the times of noon of days around 1970, in no particular order.
pub(super) fn noons() -> Vec<i64> {
    let days = (0..DAYS).map(|number| number * 251 % DAYS - DAYS / 2);
    days.map(|day| day * DAY_MS + DAY_MS / 2).collect()
}

async fn are_read_in_their_order(shown: Shown) {
    let mut noons = noons();
    for some in noons.chunks(60) {
        shown.put("s", some.iter().copied()).await;
        shown.pass().await;
    }
    noons.sort_unstable();
    let ascending = shown.table.clustering_direction(0) == Direction::Ascending;
    let (up, down) = if ascending {
        (ReadDirection::Forward, ReadDirection::Backward)
    } else {
        (ReadDirection::Backward, ReadDirection::Forward)
    };
    assert_eq!(shown.slice("s", up).await, noons);
    let mut reversed = shown.slice("s", down).await;
    reversed.reverse();
    assert_eq!(reversed, noons);
    // Read small slices that begin within the partition, as pages do.
    let snapshot = shown.store.snapshot().expect("it is open");
    for index in [0, 1, 254, 255, 256, 300, 511, 599] {
        let at = cells(&[Some(&noons[index].to_be_bytes())]);
        let whole = Slice::from_start(&shown.table, cells(&[Some(b"s")]), 3);
        let behind = Slice {
            from: Bound::After(at.clone()),
            ..whole.clone()
        };
        let before = Slice {
            to: Bound::Before(at),
            direction: ReadDirection::Backward,
            ..whole
        };
        let read = async |slice: Slice| -> Vec<i64> {
            let read = snapshot.slice(&slice, &ReadOptions::default()).await;
            read.expect("it is read").rows.iter().map(super::at).collect()
        };
        let next: Vec<i64> = noons[index + 1..].iter().take(3).copied().collect();
        let previous: Vec<i64> = noons[..index].iter().rev().take(3).copied().collect();
        let (expected, other) = if ascending {
            (next, previous)
        } else {
            (previous, next)
        };
        assert_eq!(read(behind).await, expected, "behind {index}");
        assert_eq!(read(before).await, other, "before {index}");
    }
    let stream = cells(&[Some(b"s")]);
    let (mut listed, mut next) = (Vec::new(), Some(Seek::At(Vec::new())));
    while let Some(seek) = next {
        let some = shown.store.list_buckets(&shown.table, &stream, seek, 100);
        let some = some.await.expect("they are listed");
        next = some.behind.map(Seek::At);
        listed.extend(some.pieces.into_iter().map(|piece| piece.edge));
    }
    assert!(listed.is_sorted() && listed.windows(2).all(|pair| pair[0] != pair[1]));
    assert_eq!(listed.len(), DAYS as usize);
    assert_eq!(shown.scan(1_000).await.len(), DAYS as usize);
    for at in &noons[..10] {
        shown.delete("s", *at).await;
    }
    assert_eq!(shown.slice("s", up).await, noons[10..]);
}

#[tokio::test(start_paused = true)]
async fn reads_rows_in_order_without_counts() {
    for (direction, shards) in [
        (Direction::Ascending, 1),
        (Direction::Descending, 1),
        (Direction::Descending, SHARDS),
    ] {
        let environment = environment();
        let inner = Arc::new(memory(&environment));
        are_read_in_their_order(Shown::over(inner, environment, by_day(direction, shards)).await).await;
    }
}

/// Checks that a page includes each row that was acknowledged before the page was read, even if another
/// process wrote it. No conditional write is needed.
#[tokio::test(start_paused = true)]
async fn sees_rows_of_another_process_at_once() {
    let environment = environment();
    let inner: Arc<dyn Store> = Arc::new(memory(&environment));
    let one = Shown::over(
        Arc::clone(&inner),
        environment.clone(),
        by_day(Direction::Descending, SHARDS),
    )
    .await;
    let other = Shown {
        store: BucketedStore::over(inner, environment, Arc::clone(&one.stamps)),
        ..one.clone()
    };
    let mut written = Vec::new();
    for (number, at) in noons().into_iter().take(100).enumerate() {
        let (writer, reader) = if number % 2 == 0 {
            (&one, &other)
        } else {
            (&other, &one)
        };
        writer.put("s", std::iter::once(at)).await;
        written.push(at);
        written.sort_unstable();
        assert_eq!(reader.slice("s", ReadDirection::Backward).await, written);
    }
}

/// Returns the number of entries of the registry of time buckets.
async fn entries_in(shown: &Shown) -> usize {
    let entries = crate::tables::Tables::new().times;
    let (range, options) = (TokenRange::whole(), ReadOptions::default());
    let snapshot = shown.inner.snapshot().expect("it is open");
    let read = snapshot.scan(&entries, &range, None, 1_000, &options).await;
    read.expect("it is scanned").rows.len()
}

/// Checks a write like those that maintain view entries: it deletes an existing row at an earlier
/// timestamp, which a process read long ago, and puts another row. The store accepts the write however
/// late it is, because the bucket of a row never changes. A deletion alone creates no bucket.
#[tokio::test(start_paused = true)]
async fn shows_rows_deleted_and_put_in_one_late_write() {
    let environment = environment();
    let inner: Arc<dyn Store> = Arc::new(memory(&environment));
    let shown = Shown::over(inner, environment, by_day(Direction::Descending, SHARDS)).await;
    let noons = &noons()[..20];
    for at in noons {
        let clustering = cells(&[Some(&at.to_be_bytes())]);
        let put = Operation::Put {
            clustering: clustering.clone(),
            cells: cells(&[Some(b"text"), None]),
            replace: false,
        };
        let mut both = shown.write("s", Operation::DeleteRow { clustering });
        both.mutations.extend(shown.write("s", put).mutations);
        // Let another read take place, and let time pass, so that the write is late.
        tokio::time::sleep(Duration::from_secs(60)).await;
        shown.slice("s", ReadDirection::Forward).await;
        for looked_nanos in [Some(0), None] {
            let options = WriteOptions {
                looked_nanos,
                ..WriteOptions::default()
            };
            let written = shown.store.write(both.clone(), options).await;
            assert!(matches!(written, Ok(WriteOutcome::Done)), "{written:?}");
        }
        assert!(shown.slice("s", ReadDirection::Forward).await.contains(at));
    }
    assert_eq!(shown.opened_anew().scan(100).await.len(), noons.len());
    let made = entries_in(&shown).await;
    let gone = cells(&[Some(&(9_000 * DAY_MS).to_be_bytes())]);
    shown
        .send(|| {
            vec![shown.write(
                "s",
                Operation::DeleteRow {
                    clustering: gone.clone(),
                },
            )]
        })
        .await;
    let left = entries_in(&shown).await;
    assert_eq!((made, left), (noons.len(), noons.len()));
}

/// Returns the number of buckets that a read of a whole stream reads.
async fn buckets_read(shown: &Shown, stream: &str) -> usize {
    let slice = Slice::from_start(&shown.table, cells(&[Some(stream.as_bytes())]), 100_000);
    let snapshot = shown.store.snapshot().expect("it is open");
    let read = snapshot.slice(&slice, &ReadOptions::default()).await;
    let mut buckets = read.expect("it is read").buckets.asked;
    buckets.sort_unstable();
    buckets.dedup();
    buckets.len()
}

/// Checks that reads leave out buckets whose rows were deleted, and that a later row in such a bucket is
/// seen, even if another process with a clock that is an hour behind writes it.
#[tokio::test(start_paused = true)]
async fn leaves_out_buckets_without_rows() {
    const HOUR_MICROS: i64 = 3_600_000_000;
    for (direction, shards) in [(Direction::Ascending, 1), (Direction::Descending, SHARDS)] {
        let environment = environment();
        let inner: Arc<dyn Store> = Arc::new(memory(&environment));
        let shown = Shown::over(Arc::clone(&inner), environment.clone(), by_day(direction, shards)).await;
        let stamps = Arc::clone(&shown.stamps);
        let behind: Stamps = Arc::new(move || recto_store::Stamp(stamps().0 - HOUR_MICROS));
        let other = Shown {
            store: BucketedStore::over(inner, environment, behind),
            ..shown.clone()
        };
        let mut noons = noons()[..100].to_vec();
        noons.sort_unstable();
        shown.put("s", noons.iter().copied()).await;
        for at in &noons[..98] {
            shown.delete("s", *at).await;
        }
        assert!(buckets_read(&shown, "s").await >= 100);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(buckets_read(&shown, "s").await <= 3);
        other.put("s", std::iter::once(noons[0])).await;
        let mut seen = shown.slice("s", ReadDirection::Forward).await;
        seen.sort_unstable();
        assert_eq!(seen, [noons[0], noons[98], noons[99]]);
        assert!(buckets_read(&shown, "s").await <= 4);
        shown.is_well().await;
    }
}
