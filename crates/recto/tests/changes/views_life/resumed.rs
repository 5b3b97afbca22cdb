//! Tests of comparisons of views with their records: resuming after a stop, the number of
//! concurrent reads, and the memory used.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use recto::session::{VerifiedView, VerifyReport, VerifyRequest};
use recto::store::memory::{DEFAULT_LIMITS, MemoryStore};
use recto::store::wrapper::{SnapshotWrapper, StoreWrapper};
use recto::store::{Limits, ReadOptions, RowsRead, Snapshot, Store, StoreError};
use recto::{Environment, ErrorKind, OpenOptions, Recto};
use recto_model::Slice;
use tokio::sync::Notify;

use super::{BASE, VIEWS, drift, fill, fill_each, verify, with_views};
use crate::common::stores::{in_memory, parse};

const RECORDS: i32 = 300;
/// Memory limit of a comparison, in bytes. It is so small that each view needs several passes.
const LITTLE_MEMORY_BYTES: u64 = 16_000;
/// Number of checkpoints after which the test stops a comparison. The comparison may stop a little
/// later.
const PLACES: u64 = 1;
/// Maximum number of concurrent reads: two views at a time, and eight ranges of each view's table.
const MAX_READS_AT_ONCE: i64 = 2 * 8;

fn little(resume: Option<String>) -> VerifyRequest {
    VerifyRequest {
        memory_bytes: Some(LITTLE_MEMORY_BYTES),
        resume,
        ..VerifyRequest::default()
    }
}

/// Result of a comparison that the test may have stopped early.
enum Ended {
    Done(VerifyReport),
    /// Checkpoint at which the test stopped the comparison.
    Stopped(String),
}

/// Compares views until `places` checkpoints were reported. Returns the result, and the number of
/// rows read.
async fn compare(recto: &Recto, request: &VerifyRequest, places: u64) -> (Ended, u64) {
    let (place, rows) = (Mutex::new(request.resume.clone()), AtomicU64::new(0));
    let (told, enough) = (AtomicU64::new(0), Notify::new());
    let progress = |at: recto::session::ViewProgress| {
        assert!(at.total.is_none_or(|total| total >= at.rows), "{at:?}");
        assert!(
            at.rows >= rows.swap(at.rows, Ordering::Relaxed),
            "it goes on: {at:?}"
        );
        let mut place = place.lock().unwrap();
        if at.resume.is_some() && *place != at.resume {
            *place = at.resume;
            // The first report repeats the checkpoint from which the comparison resumes, so do not
            // count it.
            let told = told.fetch_add(1, Ordering::Relaxed) + 1;
            if told >= places + u64::from(request.resume.is_some()) {
                enough.notify_one();
            }
        }
    };
    let ended = tokio::select! {
        biased;
        () = enough.notified() => None,
        report = recto.verify(request, &progress) => Some(report.unwrap()),
    };
    let place = place.into_inner().unwrap();
    let ended = match ended {
        Some(report) => Ended::Done(report),
        None => Ended::Stopped(place.unwrap()),
    };
    (ended, rows.into_inner())
}

/// Returns the report by view, with the examples of faults in a fixed order.
fn found(report: &VerifyReport) -> BTreeMap<String, VerifiedView> {
    let views = report.views.iter().cloned();
    let sorted = views.map(|mut view| {
        view.examples
            .sort_by(|one, other| (&one.kind, &one.key).cmp(&(&other.kind, &other.key)));
        (view.view.clone(), view)
    });
    sorted.collect()
}

pub(crate) async fn reports_the_same_findings_after_a_stop(recto: Recto) {
    recto.apply(&with_views()).await.unwrap();
    fill(&recto, RECORDS).await;
    let planted = drift::plant(&recto, "by_what").await.len() + drift::plant(&recto, "by_city").await.len();
    let whole = verify(&recto, &VerifyRequest::default()).await;
    assert_eq!(
        (whole.wrong(), whole.begun_seconds_ago),
        (planted as u64, None),
        "{whole:?}"
    );
    let (Ended::Done(at_once), all_rows) = compare(&recto, &little(None), u64::MAX).await else {
        panic!("nothing stops it");
    };
    assert_eq!(found(&at_once), found(&whole));
    let (mut resume, mut stops, mut half_way) = (None, 0, None);
    let report = loop {
        match compare(&recto, &little(resume.take()), PLACES).await {
            (Ended::Stopped(place), _) => {
                stops += 1;
                half_way = half_way.or((stops == 2).then(|| place.clone()));
                resume = Some(place);
            }
            (Ended::Done(report), rows) => {
                assert!(
                    rows < all_rows / 2,
                    "{rows} of {all_rows} rows were read after {stops} stops"
                );
                break report;
            }
        }
    };
    assert!(stops > 2, "it was stopped {stops} times");
    assert_eq!(found(&report), found(&whole), "after {stops} stops");
    assert!(
        report.begun_seconds_ago.is_some_and(|seconds| seconds < 600),
        "{report:?}"
    );
    // The resumed comparison must report the faults that it found before the checkpoint, without
    // checking them again. The repair has fixed the faults after the checkpoint, so it must not
    // report these.
    let repair = VerifyRequest {
        repair: true,
        ..VerifyRequest::default()
    };
    assert_eq!(verify(&recto, &repair).await.left(), 0);
    let rest = verify(&recto, &little(half_way)).await;
    assert!(
        (1..planted as u64).contains(&rest.wrong()),
        "{} of {planted}: {rest:?}",
        rest.wrong()
    );
    assert_eq!(verify(&recto, &little(None)).await.wrong(), 0);
}

pub(crate) async fn repairs_the_remaining_faults_after_a_stop(recto: Recto) {
    recto.apply(&with_views()).await.unwrap();
    fill(&recto, RECORDS).await;
    let planted = drift::plant(&recto, "by_what").await.len() + drift::plant(&recto, "by_city").await.len();
    let mut request = VerifyRequest {
        repair: true,
        ..little(None)
    };
    let mut stops = 0;
    let report = loop {
        match compare(&recto, &request, PLACES).await.0 {
            Ended::Stopped(place) => request.resume = Some(place),
            Ended::Done(report) => break report,
        }
        stops += 1;
    };
    assert!(stops > 2, "it was stopped {stops} times");
    // A fault that was repaired in an incomplete pass must not be reported again.
    assert!(
        report.left() == 0 && report.wrong() <= planted as u64,
        "{report:?}"
    );
    super::assert_all_is_well(&recto).await;
}

#[test]
fn a_place_is_of_one_store_one_comparison_and_one_schema() {
    super::run(async {
        let recto = in_memory(true).await;
        recto.apply(&with_views()).await.unwrap();
        fill(&recto, RECORDS).await;
        let (Ended::Stopped(place), _) = compare(&recto, &little(None), 1).await else {
            panic!("there are more places than one");
        };
        let refused = async |recto: &Recto, request: VerifyRequest, text: &str| {
            let error = recto.verify(&request, &|_| {}).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidCursor, "{error}");
            assert!(error.to_string().contains(text), "{error}");
            assert!(
                error.hint().unwrap().contains("begin at the beginning"),
                "{error}"
            );
        };
        let resume = || little(Some(place.clone()));
        let people = VerifyRequest {
            collections: vec!["people".into()],
            ..resume()
        };
        refused(&recto, people, "of another comparison").await;
        let repair = VerifyRequest {
            repair: true,
            ..resume()
        };
        refused(&recto, repair, "of another comparison").await;
        for (text, says) in [
            ("", "is empty"),
            (&place[..place.len() / 8 * 4], "altered"),
            ("*", "not base64url"),
            (
                "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFB",
                "not a checkpoint token",
            ),
        ] {
            refused(&recto, little(Some(text.into())), says).await;
        }
        let other = in_memory(true).await;
        other.apply(&with_views()).await.unwrap();
        refused(&other, resume(), "an unknown key").await;
        assert_eq!(verify(&recto, &resume()).await.wrong(), 0);
        let more = VIEWS.replace(
            "[collection.people.view.ages]",
            "[collection.people.view.notes]\npartition = [\"note\"]\n[collection.people.view.ages]",
        );
        recto.apply(&parse(&format!("{BASE}{more}"))).await.unwrap();
        refused(&recto, resume(), "the schema was changed").await;
    });
}

/// Store wrapper that counts concurrent reads.
struct Counting {
    inner: Arc<dyn Store>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    begun: AtomicI64,
    /// Number of starts and ends of reads so far.
    passed: AtomicI64,
    most: AtomicI64,
}

struct CountedReads {
    inner: Arc<dyn Snapshot>,
    counts: Arc<Counts>,
}

impl StoreWrapper for Counting {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    fn on_snapshot(&self, inner: Arc<dyn Snapshot>) -> Arc<dyn Snapshot> {
        let counts = Arc::clone(&self.counts);
        Arc::new(CountedReads { inner, counts })
    }
}

#[async_trait]
impl SnapshotWrapper for CountedReads {
    fn inner(&self) -> &Arc<dyn Snapshot> {
        &self.inner
    }

    async fn on_slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        self.inner.slice(slice, options).await
    }

    fn on_other_read(&self) {
        let begun = self.counts.begun.fetch_add(1, Ordering::Relaxed) + 1;
        let under_way = 2 * begun - self.counts.passed.load(Ordering::Relaxed) - 1;
        self.counts.most.fetch_max(under_way, Ordering::Relaxed);
    }

    async fn pass(&self) {
        self.counts.passed.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn in_virtual_time<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(future)
}

#[test]
fn no_more_is_read_at_once_than_two_views_by_eight_ranges() {
    in_virtual_time(async {
        let limits = Limits {
            remote: true,
            ..DEFAULT_LIMITS
        };
        let inner: Arc<dyn Store> = Arc::new(MemoryStore::with_limits(Environment::system(), limits));
        let counts = Arc::new(Counts::default());
        let counting = Counting {
            inner,
            counts: Arc::clone(&counts),
        };
        let recto = Recto::with_store(Arc::new(counting), OpenOptions::new().create())
            .await
            .unwrap();
        recto.apply(&with_views()).await.unwrap();
        fill(&recto, RECORDS).await;
        counts.most.store(0, Ordering::Relaxed);
        let report = verify(&recto, &VerifyRequest::default()).await;
        assert_eq!((report.views.len(), report.wrong()), (3, 0));
        let most = counts.most.load(Ordering::Relaxed);
        assert!(
            (MAX_READS_AT_ONCE / 2 + 1..=MAX_READS_AT_ONCE).contains(&most),
            "{most}"
        );
    });
}

#[test]
fn compares_views_in_bounded_memory() {
    const MEMORY_BYTES: u64 = 512 << 10;
    /// Memory in bytes that a comparison needs, beyond its limit, for rows in transit and data
    /// computed from them.
    const READ_BYTES: u64 = 5 << 18;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.unwrap();
    let recto = runtime.block_on(async {
        let recto = in_memory(true).await;
        recto.apply(&with_views()).await.unwrap();
        fill_each(&recto, 32_000, 0).await;
        recto
    });
    let taken = |memory_bytes: u64| {
        let request = VerifyRequest {
            collections: vec!["events".into()],
            memory_bytes: Some(memory_bytes),
            ..VerifyRequest::default()
        };
        let taken = allocation_counter::measure(|| {
            let report = runtime.block_on(verify(&recto, &request));
            assert_eq!(report.wrong(), 0);
        });
        taken.bytes_max
    };
    let (little, much) = (taken(MEMORY_BYTES), taken(64 << 20));
    println!("a comparison takes {little} bytes, or {much}");
    assert!(little < MEMORY_BYTES + READ_BYTES, "{little}");
    // With a higher limit, the comparison uses more memory. The first assertion therefore shows
    // that the comparison obeys its limit.
    assert!(much > MEMORY_BYTES + READ_BYTES, "{much}");
}
