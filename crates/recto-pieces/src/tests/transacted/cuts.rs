//! Tests of splits during writes, changes and reads of rows.

use std::collections::BTreeSet;

use super::*;

const ROW: usize = 400;

async fn fill(stream: &Stream, ats: impl Iterator<Item = i64>) {
    let text = [b'x'; ROW];
    for at in ats {
        stream.put(at, &text).await;
    }
}

fn orders() -> Vec<Order> {
    let both =
        |ty: Type| [Direction::Ascending, Direction::Descending].map(|direction| (ty.clone(), direction));
    let types = [Type::BigInt, Type::Int, Type::Text, Type::Timestamp];
    let all = types.into_iter().flat_map(both);
    let uuids = [Type::Uuid, Type::TimeUuid].map(|ty| (ty, Direction::Ascending));
    all.chain(uuids)
        .map(|(ty, direction)| Order { ty, direction })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_has_grown_is_cut_whatever_its_order() {
    for order in orders() {
        let stream = Stream::new(in_memory(), order.clone(), BucketSize::Bytes(40_000)).await;
        let _work = stream.works();
        fill(&stream, shuffled(600)).await;
        let buckets = stream.settled().await;
        assert!(buckets.len() >= 7, "{order:?}: {buckets:?}");
        assert_eq!(stream.all().await.len(), 600, "{order:?}");
        let numbers: BTreeSet<_> = buckets.iter().map(|(bucket, _)| bucket.0).collect();
        assert_eq!(numbers.len(), buckets.len(), "each bucket once");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn figures_of_pieces_are_exact_when_they_were_cut() {
    let stream = Stream::new(
        in_memory(),
        Order::of_numbers(Direction::Ascending),
        BucketSize::Bytes(40_000),
    )
    .await;
    fill(&stream, 0..500).await;
    let mended = stream.engine.mend(&stream.place).await.expect("it is mended");
    let buckets = stream.buckets().await;
    assert_eq!((mended.buckets, mended.too_large), (buckets.len(), 0));
    assert_eq!(mended.made, buckets.len() - 1);
    let windows = stream.windows().await;
    let pieces = windows.iter().flat_map(|window| &window.pieces);
    for (piece, (_, count)) in pieces.zip(&buckets) {
        let figures = piece.figures.expect("it has figures");
        assert_eq!((figures.rows, figures.bytes), (count.rows, count.bytes));
        assert_eq!((figures.rows_variance, figures.bytes_variance), (0, 0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_root_is_marked_with_the_first_cut() {
    let stream = Stream::new(
        in_memory(),
        Order::of_numbers(Direction::Ascending),
        BucketSize::Bytes(40_000),
    )
    .await;
    let root = async || {
        let snapshot = stream.store.snapshot().expect("it is open");
        let partition = stream.place.bucket_partition(Bucket(0));
        let table = &stream.place.pieced.table;
        let read = snapshot
            .get_statics(table, &partition, &ReadOptions::default())
            .await;
        let rows = read.expect("it is read").rows;
        rows.iter().next().and_then(|row| row.get(0).map(<[u8]>::to_vec))
    };
    fill(&stream, 0..50).await;
    assert_eq!(root().await, None);
    fill(&stream, 50..150).await;
    stream.engine.mend(&stream.place).await.expect("it is mended");
    assert!(stream.buckets().await.len() > 1);
    assert_eq!(root().await, Some(vec![1]));
}

/// Runs writers, pages in both directions, and splits concurrently. Each page shows all rows that were acknowledged
/// before it, each once and in order.
async fn at_once(store: Arc<dyn Store>, order: Order, rows: i64, size: BucketSize) {
    let stream = Stream::new(store, order.clone(), size).await;
    let _work = stream.works();
    let done = Arc::new(AtomicI64::new(0));
    let mut writers = Vec::new();
    for writer in 0..4 {
        let (stream, done) = (stream.clone(), Arc::clone(&done));
        writers.push(tokio::spawn(async move {
            for at in shuffled(rows) {
                let name = format!("{writer}");
                let text = vec![b'0' + writer; ROW];
                stream.write(stream.put_of(at, &name, Some(&text)), None).await;
                done.fetch_add(1, Ordering::SeqCst);
            }
        }));
    }
    let (mut pages, mut was) = (0, Vec::new());
    while writers.iter().any(|writer| !writer.is_finished()) {
        let least = done.load(Ordering::SeqCst);
        let moment = stream.engine.snapshot().expect("it is open");
        let direction = [ReadDirection::Forward, ReadDirection::Backward][pages % 2];
        // The page uses the snapshot, even after splits that take place before the read.
        tokio::time::sleep(Duration::from_millis(pages as u64 % 7)).await;
        let mut page = stream.rows_at(&moment, direction).await;
        if direction == ReadDirection::Backward {
            page.reverse();
        }
        assert!(count(&page) >= least, "{} rows of {least}", page.len());
        let keys: Vec<_> = page.iter().map(|(row, ..)| stream_key(&stream, row)).collect();
        assert!(
            keys.is_sorted() && keys.windows(2).all(|two| two[0] != two[1]),
            "{direction:?}"
        );
        let shown: BTreeSet<_> = keys.iter().cloned().collect();
        assert!(was.iter().all(|key| shown.contains(key)), "what was seen stays");
        was = keys;
        pages += 1;
    }
    for writer in writers {
        writer.await.expect("it writes all");
    }
    assert!(pages > 0);
    let buckets = stream.settled().await;
    assert!(buckets.len() > 8, "{buckets:?}");
    assert_eq!(count(&stream.all().await), 4 * rows);
}

fn stream_key(stream: &Stream, row: &Cells) -> Vec<u8> {
    let clustering = row.iter().take(2).collect();
    stream.place.key(&clustering).expect("it is a key")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_pages_and_cuts_at_once_in_memory() {
    for direction in [Direction::Ascending, Direction::Descending] {
        at_once(
            in_memory(),
            Order::of_numbers(direction),
            200,
            BucketSize::Bytes(30_000),
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_pages_and_cuts_at_once_on_disk() {
    for direction in [Direction::Ascending, Direction::Descending] {
        let directory = tempfile::tempdir().expect("there is room");
        at_once(
            on_disk(&directory),
            Order::of_numbers(direction),
            300,
            BucketSize::Bytes(30_000),
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_opened_again_goes_on() {
    let directory = tempfile::tempdir().expect("there is room");
    let order = Order::of_numbers(Direction::Descending);
    let mut last = 0;
    for round in 0..5 {
        let stream = Stream::new(on_disk(&directory), order.clone(), BucketSize::Bytes(30_000)).await;
        let rows = count(&stream.all().await);
        assert!(rows >= last, "{rows} rows, {last} were acknowledged");
        let work = stream.works();
        let writer = tokio::spawn({
            let stream = stream.clone();
            async move { fill(&stream, (0..400).map(|at| at * 5 + round)).await }
        });
        // Interrupt the work at an arbitrary moment.
        tokio::time::sleep(Duration::from_millis(
            60 + 37 * u64::try_from(round).expect("it is small"),
        ))
        .await;
        last = count(&stream.all().await);
        writer.abort();
        work.abort();
        drop((writer.await, work.await));
        stream.buckets().await;
    }
    let stream = Stream::new(on_disk(&directory), order, BucketSize::Bytes(30_000)).await;
    let mended = stream.engine.mend(&stream.place).await.expect("it is mended");
    assert_eq!(mended.too_large, 0);
    assert_eq!(stream.buckets().await.len(), mended.buckets);
}

fn count<T>(some: &[T]) -> i64 {
    i64::try_from(some.len()).expect("they are few")
}
