//! Tests of risks when rows are moved.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_moved_whole_with_what_remains_of_their_lives() {
    let directory = tempfile::tempdir().expect("there is room");
    for store in [in_memory(), on_disk(&directory)] {
        let stream = Stream::new(
            store,
            Order::of_numbers(Direction::Ascending),
            BucketSize::Rows(4),
        )
        .await;
        let nulls = stream.write(stream.put_of(1, "a", None), None).await.0;
        for at in 2..8 {
            let ttl = (at % 2 == 0).then_some(1_000);
            stream.write(stream.put_of(at, "a", Some(b"x")), ttl).await;
        }
        let before = stream.all().await;
        stream.engine.mend(&stream.place).await.expect("it is mended");
        assert!(stream.buckets().await.len() > 1);
        let after = stream.all().await;
        for ((is, stamp, ends), (was, stamp_before, ends_before)) in after.iter().zip(&before) {
            assert!(is == was);
            assert_eq!(stamp, stamp_before);
            assert_eq!(ends.is_some(), ends_before.is_some());
            assert!(ends.is_none_or(|ends| (990..=1_001).contains(&ends)), "{ends:?}");
        }
        assert_eq!(after.len(), before.len());
        assert_eq!(after[0].1, nulls, "a row of nulls has a stamp");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_of_what_has_ended_is_left_behind() {
    let directory = tempfile::tempdir().expect("there is room");
    let stream = Stream::new(
        on_disk(&directory),
        Order::of_numbers(Direction::Ascending),
        BucketSize::Rows(10),
    )
    .await;
    for at in 0..12 {
        stream
            .write(stream.put_of(at, "a", Some(b"x")), (at != 3).then_some(1))
            .await;
    }
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    stream.engine.mend(&stream.place).await.expect("it is mended");
    let buckets = stream.buckets().await;
    assert_eq!(buckets.len(), 1, "{buckets:?}");
    assert_eq!(buckets[0].1.rows, 1, "what has ended is counted no more");
    assert_eq!(stream.all().await.len(), 1);
    // Scans find the partition by its root.
    let root = stream.place.bucket_partition(Bucket(0));
    let snapshot = stream.store.snapshot().expect("it is open");
    let table = &stream.place.pieced.table;
    let statics = snapshot.get_statics(table, &root, &ReadOptions::default()).await;
    assert_eq!(statics.expect("it is read").rows.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_that_were_added_are_moved() {
    let stream = Stream::new(
        in_memory(),
        Order::of_numbers(Direction::Ascending),
        BucketSize::Rows(5),
    )
    .await;
    let old = Table::clone(&stream.place.pieced.table);
    let mut columns = old.columns().to_vec();
    columns.push(Column {
        name: "later".to_owned(),
        ty: Type::Text,
        kind: ColumnKind::Regular(WriteKind::Plain),
    });
    let new = Arc::new(Table::new("events", columns, old.options()).expect("it is a table"));
    stream.store.add_columns(&old, &new).await.expect("it is added");
    for at in 0..12 {
        stream.put(at, b"x").await;
    }
    let write = PartitionWrite {
        table: Arc::clone(&new),
        partition: stream.place.bucket_partition(Bucket(0)),
        mutations: vec![Mutation {
            operation: Operation::Patch {
                clustering: stream.clustering(11, "a"),
                columns: vec![3],
                cells: [Some(&b"kept"[..])].into_iter().collect(),
            },
            stamp: Some(Stamp(1_000_000)),
            ttl_seconds: None,
        }],
    };
    let outcome = stream.store.write(write, WriteOptions::default()).await;
    assert!(matches!(outcome, Ok(WriteOutcome::Done)));
    stream.engine.mend(&stream.place).await.expect("it is mended");
    let key = stream
        .place
        .key(&stream.clustering(11, "a"))
        .expect("it is a key");
    let guard = stream
        .engine
        .route(std::slice::from_ref(&stream.place), TIME)
        .await
        .expect("it is routed");
    let partition = guard.partition_of(&stream.place, &key).expect("it has one");
    guard.done();
    assert_ne!(
        partition,
        stream.place.bucket_partition(Bucket(0)),
        "it was moved"
    );
    let read = recto_store::PointRead {
        table: new,
        partition,
        clustering: stream.clustering(11, "a"),
    };
    let snapshot = stream.store.snapshot().expect("it is open");
    let found = snapshot
        .get(&read, &ReadOptions::default())
        .await
        .expect("it is read");
    let row = found.rows.iter().next().expect("it is there");
    assert_eq!(row.get(8), Some(&b"kept"[..]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_is_too_large_alone_is_left_where_it_is() {
    let stream = Stream::new(
        in_memory(),
        Order::of_numbers(Direction::Ascending),
        BucketSize::Bytes(1_000),
    )
    .await;
    stream.put(1, &[b'x'; 5_000]).await;
    let mended = stream.engine.mend(&stream.place).await.expect("it is mended");
    assert_eq!((mended.buckets, mended.made, mended.too_large), (1, 0, 1));
    // If the bucket has other rows, the row is split off.
    for at in [0, 2, 3] {
        stream.put(at, b"x").await;
    }
    stream.engine.mend(&stream.place).await.expect("it is mended");
    let buckets = stream.buckets().await;
    let with_it = buckets.iter().filter(|(_, count)| count.bytes > 5_000);
    assert!(with_it.clone().all(|(_, count)| count.rows == 1), "{buckets:?}");
    assert_eq!(with_it.count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_of_before_a_cut_shows_what_was_there_then() {
    let directory = tempfile::tempdir().expect("there is room");
    for store in [in_memory(), on_disk(&directory)] {
        let stream = Stream::new(
            store,
            Order::of_numbers(Direction::Ascending),
            BucketSize::Rows(10),
        )
        .await;
        for at in 0..100 {
            stream.put(at, b"x").await;
        }
        let before = stream.engine.snapshot().expect("it is open");
        stream.engine.mend(&stream.place).await.expect("it is mended");
        let between = stream.engine.snapshot().expect("it is open");
        for at in 100..200 {
            stream.put(at, b"x").await;
        }
        stream.engine.mend(&stream.place).await.expect("it is mended");
        for direction in [ReadDirection::Forward, ReadDirection::Backward] {
            assert_eq!(stream.rows_at(&before, direction).await.len(), 100);
            assert_eq!(stream.rows_at(&between, direction).await.len(), 100);
        }
        assert_eq!(stream.all().await.len(), 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_directories_are_read_by_windows() {
    let directory = tempfile::tempdir().expect("there is room");
    let stream = Stream::new(
        on_disk(&directory),
        Order::of_numbers(Direction::Ascending),
        BucketSize::Rows(2),
    )
    .await;
    let rows = (0..1_200).map(|at| stream.put_of(at, "a", Some(b"x")));
    stream.write_all(rows.collect(), None).await;
    let before = stream.engine.snapshot().expect("it is open");
    let mended = stream.engine.mend(&stream.place).await.expect("it is mended");
    assert!(mended.buckets > 512, "{mended:?}");
    let first = stream.engine.snapshot().expect("it is open");
    for at in 1_200..1_210 {
        stream.put(at, b"x").await;
    }
    stream.engine.mend(&stream.place).await.expect("it is mended");
    // Read by the snapshot, because of the splits since, and by the cached range map.
    for (moment, rows) in [
        (&before, 1_200),
        (&first, 1_200),
        (&stream.engine.snapshot().expect("it is open"), 1_210),
    ] {
        for direction in [ReadDirection::Forward, ReadDirection::Backward] {
            assert_eq!(stream.rows_at(moment, direction).await.len(), rows);
        }
    }
    stream.buckets().await;
}
