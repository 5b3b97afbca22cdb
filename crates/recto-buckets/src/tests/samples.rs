//! Tests that samples match their rows after a write was interrupted at any point.

use std::sync::atomic::AtomicUsize;

use recto_model::table::Direction;
use recto_protocol::buckets::sampling::hash;
use recto_protocol::buckets::{Bucket, Span};
use recto_store::wrapper::StoreWrapper;
use recto_store::{Atomicity, PartitionWrite, StoreError, WriteOptions, WriteOutcome};

use super::*;

/// Store that executes a given number of writes, and never answers the write after them.
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
    /// Returns the keys of the samples of bucket 0.
    async fn sampled(&self) -> Vec<Vec<u8>> {
        let (pieces, all) = (&self.pieces, Span::all());
        let samples = pieces.samples(&self.partition.place, Bucket(0), &all, pieces.deadline(TIME));
        let samples = samples.await.expect("they are read");
        samples.into_iter().map(|dated| dated.sample.key).collect()
    }

    /// Returns the key of a row if a row of 900 bytes with the key must be sampled.
    fn would_be_sampled(&self, at: i64) -> Option<Vec<u8>> {
        let clustering = clustering(at, "a");
        let key = self.pieced.key(clustering.as_row()).expect("it is one");
        let bytes = (clustering.byte_len() + 900 + 64) as u64;
        self.pieced.sampling.is_sampled(hash(&key), bytes).then_some(key)
    }

    /// Returns the number of existing rows without a sample, and the number of samples without a row.
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
            // Execute only `writes` writes. A complete write of a row writes the sample and the
            // row.
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
