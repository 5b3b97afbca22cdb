//! What is there when all processes are gone.

use std::time::Duration;

use recto::session::{
    BucketStatus, BucketsRequest, RebalanceReport, RebalanceRequest, Session, VerifiedBuckets, VerifyReport,
    VerifyRequest,
};
use recto::{Environment, LocalSession, OpenOptions, Recto};

use super::children::pages_through;
use super::lists::{List, Lists};
use super::said::Said;
use crate::common::clocks::{Clocks, recover_at_once};

/// What a request may take when all nodes are up again, and have much to do.
const TIMEOUT: Duration = Duration::from_secs(60);
/// For whoever mends alone nothing has to be waited for.
const JUMP: Duration = Duration::from_secs(3_700);
const BETWEEN_JUMPS: Duration = Duration::from_millis(50);
/// How often a list is repaired at most.
const REPAIRED: u32 = 5;
const LISTED: i64 = 256;
/// Buckets that a list has at least.
const BUCKETS: usize = 4;

/// Each list is read from both ends, is repaired, and is read again: no cut is left half done, and no bucket is too large. Each view has one
/// entry for each record, and when samples are gone that deaths left, nothing is wrong.
pub(crate) async fn settle(address: &str, said: &mut Said) {
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
        // This process may begin to cut ahead, by how fast rows came until now.
        while let Err(bucket) = check(&session, list).await {
            rounds += 1;
            assert!(rounds < REPAIRED, "{bucket:?}");
            rebalance(&session, list, &clocks).await;
        }
        read(&lists, list, said).await;
    }
    println!("{:?}", recover_at_once(&recto, &clocks).await);
    // Who dies between a sample and its row leaves it, be it of a row that was there before, and with it a bucket that is cut a little sooner
    // or later. Who dies when a row came too late for
    // what its bucket was cut into, and its entry did not, leaves the entry: nobody was told that the row is there, and no page showed it.
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

async fn read(lists: &Lists, list: List, said: &mut Said) {
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
        // Nothing can be cleared before an hour is over.
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

/// That no cut is half done, and no bucket too large: else the first that is.
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
