//! Samples beside their rows, whoever is interrupted and whenever.

use std::sync::atomic::AtomicUsize;

use recto_buckets::sampling::hash;
use recto_buckets::{Bucket, Span};
use recto_model::table::Direction;
use recto_store::wrapper::StoreWrapper;
use recto_store::{Atomicity, PartitionWrite, StoreError, WriteOptions, WriteOutcome};

use super::*;

/// A store that does so many writes, and never answers another one.
struct Interrupted {
    inner: Arc<dyn Store>,
    left: Arc<AtomicUsize>,
}

#[async_trait::async_trait]
impl StoreWrapper for Interrupted {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    async fn on_writes(
        &self,
        writes: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        let less = |left: usize| left.checked_sub(1);
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        if taken.is_err() {
            std::future::pending::<()>().await;
        }
        self.inner.write_many(writes, atomicity, options).await
    }
}

impl Stream {
    /// The keys of which bucket 0 has samples.
    async fn sampled(&self) -> Vec<Vec<u8>> {
        let (pieces, all) = (&self.pieces, Span::all());
        let samples = pieces.samples(&self.partition.place, Bucket(0), &all, pieces.deadline(TIME));
        let samples = samples.await.expect("they are read");
        samples.into_iter().map(|dated| dated.sample.key).collect()
    }

    /// Rows of 900 bytes that are to be sampled.
    fn would_be_sampled(&self, at: i64) -> Option<Vec<u8>> {
        let clustering = clustering(at, "a");
        let key = self.pieced.key(clustering.as_row()).expect("it is one");
        let bytes = (clustering.byte_len() + 900 + 64) as u64;
        self.pieced.sampling.is_sampled(hash(&key), bytes).then_some(key)
    }

    /// The rows that are there and not counted, and the samples of rows that are not there.
    async fn miscounted(&self) -> (usize, usize) {
        let sampled = self.sampled().await;
        let rows = self.all().await;
        let of_rows: Vec<_> = rows
            .iter()
            .filter_map(|(at, _)| self.would_be_sampled(*at))
            .collect();
        let uncounted = of_rows.iter().filter(|key| !sampled.contains(key));
        let too_many = sampled.iter().filter(|key| !of_rows.contains(key));
        (uncounted.count(), too_many.count())
    }
}

#[tokio::test(start_paused = true)]
async fn no_row_is_left_that_is_not_counted() {
    let put = || Change::Put {
        cells: cells(&[None, None, Some(&[b'x'; 900])]),
        replace: true,
        ttl_seconds: None,
    };
    for writes in 0..3 {
        let (environment, left) = (environment(), Arc::new(AtomicUsize::new(usize::MAX)));
        let store = Interrupted {
            inner: Arc::new(memory(&environment)),
            left: Arc::clone(&left),
        };
        let stream = Stream::on(Arc::new(store), environment, Direction::Ascending).await;
        let at = (0..100).find(|at| stream.would_be_sampled(*at).is_some());
        let at = at.expect("one of them is");
        for change in [put(), Change::Delete] {
            // The sample and the row, in whichever order.
            left.store(writes, Ordering::Relaxed);
            let interrupted = tokio::time::timeout(TIME / 2, stream.write(at, "a", change.clone())).await;
            assert_eq!(interrupted.is_err(), writes < 2, "{change:?}");
            let (uncounted, too_many) = stream.miscounted().await;
            assert_eq!(uncounted, 0, "{change:?} after {writes} writes");
            assert_eq!(too_many, usize::from(writes == 1), "{change:?}");
            left.store(usize::MAX, Ordering::Relaxed);
            stream.write(at, "a", put()).await.expect("it is written");
            assert_eq!(stream.miscounted().await, (0, 0));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_sample_without_a_row_does_not_count_for_ever() {
    let stream = Stream::new(Direction::Ascending).await;
    let sampled = (0..200).filter(|at| stream.would_be_sampled(*at).is_some());
    for at in sampled {
        let text = "x".repeat(900);
        stream.put(at, "a", &text).await.expect("it is written");
        // Who deletes it is interrupted before its sample is marked.
        let delete = recto_store::Operation::DeleteRow {
            clustering: clustering(at, "a"),
        };
        let delete = PartitionWrite {
            table: Arc::clone(&stream.pieced.table),
            partition: stream.partition.place.bucket_partition(Bucket(0)),
            mutations: vec![crate::tables::mutation(delete, (stream.pieces.stamps)(), None)],
        };
        let deleted = stream.pieces.store.write(delete, WriteOptions::default()).await;
        assert!(matches!(deleted, Ok(WriteOutcome::Done)));
    }
    assert!(stream.sampled().await.len() > 12, "enough to be cut");
    tokio::time::sleep(Duration::from_secs(4_000)).await;
    let pieces = stream.pieces.clone();
    tokio::spawn(async move { pieces.work().await });
    stream.partition.look(TIME).await.expect("it is read");
    tokio::time::sleep(Duration::from_secs(60)).await;
    let directory = stream.partition.directory(TIME).await.expect("it is read");
    assert_eq!((directory.version, stream.sampled().await.len()), (0, 0));
}
