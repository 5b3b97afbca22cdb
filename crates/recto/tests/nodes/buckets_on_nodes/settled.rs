//! Checks and repairs the stored rows after all child processes were killed.

use std::time::Duration;

use recto::session::{
    BucketStatus, BucketsRequest, RebalanceReport, RebalanceRequest, Session, VerifiedBuckets, VerifyReport,
    VerifyRequest,
};
use recto::{Environment, LocalSession, OpenOptions, Recto};

use super::children::pages_through;
use super::lists::{List, Lists};
use super::said::ListReports;
use crate::common::clocks::{Clocks, recover_at_once};

/// Maximum duration of a request after all nodes are up again. The time is long, because the nodes
/// are still busy.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Time by which the test moves the clock forward, so that the repairing process does not wait for
/// other processes.
const JUMP: Duration = Duration::from_secs(3_700);
const BETWEEN_JUMPS: Duration = Duration::from_millis(50);
/// Maximum number of repairs of a list, until no split of its buckets is incomplete.
const REPAIRED: u32 = 5;
const LISTED: i64 = 256;
/// Minimum number of buckets that each list must have.
const BUCKETS: usize = 4;

/// Reads each list from both ends, completes the splits of its buckets, and reads the list again.
/// Asserts these conditions:
///
/// - No split is incomplete, and no bucket is too large.
/// - Each view has one row for each record.
/// - After a repair, the command `verify` finds no errors. Before it, `verify` finds only errors
///   that killed processes may cause.
pub(crate) async fn settle(address: &str, said: &mut ListReports) {
    let clocks = Clocks::default();
    let options = OpenOptions::new()
        .environment(clocks.environment())
        .request_timeout(TIMEOUT);
    let recto = Recto::open_with(address, options).await.unwrap();
    let (lists, session) = (Lists::new(recto.clone()), LocalSession::new(recto.clone()));
    for list in List::ALL {
        read(&lists, list, said).await;
        let repaired = rebalance(&session, list, &clocks).await;
        assert!(
            repaired.buckets > repaired.created + 1,
            "nothing was cut before: {repaired:?}"
        );
        let mut rounds = 0;
        // The repairing process itself may begin a split early, because it still knows a high rate
        // of writes. If so, rebalance again.
        while let Err(bucket) = check(&session, list).await {
            rounds += 1;
            assert!(rounds < REPAIRED, "{bucket:?}");
            rebalance(&session, list, &clocks).await;
        }
        read(&lists, list, said).await;
    }
    println!("{:?}", recover_at_once(&recto, &clocks).await);
    // Killed processes may leave two kinds of wrong rows. The first is a sample: a row by which
    // Recto estimates the size of a bucket. A process writes the sample before the row, so the
    // sample may remain without its row.
    //
    // The second is a row of a view. If a process is killed while its bucket is split, the base row
    // may arrive too late, but the row of the view in time. The write was not acknowledged, and no
    // page shows its row.
    let repaired = verify(&recto, true).await;
    let samples = |one: &VerifiedBuckets| -> u64 {
        let kinds = ["orphan_sample", "wrong_sample"];
        kinds.iter().filter_map(|kind| one.found.get(*kind)).sum()
    };
    let samples: u64 = repaired.buckets.iter().map(samples).sum();
    let entries: u64 = repaired.views.iter().map(|view| view.orphan).sum();
    assert_eq!(repaired.wrong(), samples + entries, "{repaired:?}");
    let verified = verify(&recto, false).await;
    assert_eq!(verified.wrong(), 0, "{verified:?}");
    recto.close().await.unwrap();
}

async fn verify(recto: &Recto, repair: bool) -> VerifyReport {
    let request = VerifyRequest {
        repair,
        ..VerifyRequest::default()
    };
    recto.verify(&request, &|_| {}).await.unwrap()
}

async fn read(lists: &Lists, list: List, said: &mut ListReports) {
    let clock = Environment::system();
    for is_backward in [false, true] {
        let mut hear = |line: String| said.hear(&line);
        pages_through(lists, list, is_backward, 200, &clock, &mut hear)
            .await
            .unwrap();
    }
}

async fn rebalance(session: &LocalSession, list: List, clocks: &Clocks) -> RebalanceReport {
    let (collection, view, filter) = list.place();
    let request = RebalanceRequest {
        view: view.to_owned(),
        filter,
        // Recto removes old buckets only after an hour, so do not remove them here.
        clear: false,
    };
    let tools = session.tools().unwrap();
    let rebalancing = tools.rebalance_buckets(collection, &request, &|_| {});
    let jumping = async {
        loop {
            tokio::time::sleep(BETWEEN_JUMPS).await;
            clocks.jump(JUMP);
        }
    };
    tokio::select! {
        repaired = rebalancing => {
            let repaired = repaired.unwrap();
            println!("{}: {repaired:?}", list.name());
            repaired
        }
        () = jumping => unreachable!("it jumps for ever"),
    }
}

/// Checks that no split of a list's buckets is incomplete, and that no bucket is too large. Returns
/// the first bucket that violates this rule as the error.
async fn check(session: &LocalSession, list: List) -> Result<(), BucketStatus> {
    let (collection, view, filter) = list.place();
    let mut request = BucketsRequest {
        view: view.to_owned(),
        filter,
        page_size: Some(LISTED),
        ..BucketsRequest::default()
    };
    let mut count = 0;
    loop {
        let listed = session
            .tools()
            .unwrap()
            .buckets(collection, &request)
            .await
            .unwrap();
        count += listed.buckets.len();
        let is_settled =
            |bucket: &BucketStatus| matches!(&*bucket.step, "at_rest" | "left") && !bucket.too_large;
        if let Some(bucket) = listed.buckets.into_iter().find(|bucket| !is_settled(bucket)) {
            return Err(bucket);
        }
        if listed.next_page_token.is_empty() {
            break;
        }
        request.page_token = listed.next_page_token;
    }
    println!("{}: {count} buckets", list.name());
    assert!(count >= BUCKETS, "{}: {count} buckets", list.name());
    Ok(())
}
