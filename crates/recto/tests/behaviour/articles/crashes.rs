//! Checks that the list of suspended users agrees with the records after a crash. A process that
//! suspends or unsuspends a user dies at each call of the change: before the call, after it, or
//! while concurrent calls are executed. The next process then repairs the list. The article *Sorted
//! Pagination in Cassandra* mentions the problem: "If the second deletion fails".

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use recto::store::Store;
use recto::{Change, ErrorKind, OpenOptions, Recto};

use super::sorted::user;
use super::suspensions::{ACTIVE, SUSPENDED, by_status, suspension, suspensions};
use crate::common::clocks::{Clocks, recover_at_once};
use crate::common::exact::assert_views_are_exact;
use crate::common::killing::{Cut, Killing};
use crate::common::subject::words_of;
use crate::common::{Fresh, stores};

/// Upper bound of the number of store calls that a change of a user makes.
const MOST_CALLS: u32 = 8;
/// Time for which other calls of the killed process may continue.
const BESIDE: Duration = Duration::from_millis(300);
/// Maximum number of changes that the test runs, and kills, concurrently.
const AT_ONCE: usize = 8;
/// Id of a user who has no record.
const NOBODY: u32 = 9_999;

/// Change of a user's record that the killed process executes.
#[derive(Debug, Clone, Copy)]
enum Doing {
    Suspend,
    Unsuspend,
    /// Moves the user from the list of active users to the list of suspended users.
    Move,
}

/// Process that changes one user, and is killed at one of its store calls.
#[derive(Debug, Clone, Copy)]
struct Life {
    doing: Doing,
    cut: Cut,
    calls: u32,
    number: u32,
}

/// Result of a change whose process was killed.
#[derive(Debug)]
struct Gone {
    life: Life,
    acknowledged: bool,
}

impl Life {
    fn all() -> Vec<Self> {
        let mut lives = Vec::new();
        for doing in [Doing::Suspend, Doing::Unsuspend, Doing::Move] {
            for cut in [Cut::Before, Cut::After, Cut::Beside] {
                for calls in 0..MOST_CALLS {
                    let number = lives.len() as u32;
                    lives.push(Self {
                        doing,
                        cut,
                        calls,
                        number,
                    });
                }
            }
        }
        lives
    }

    /// Returns the status of the user before and after the change. `None` if the user has no
    /// record.
    fn statuses(self) -> [Option<&'static str>; 2] {
        match self.doing {
            Doing::Suspend => [None, Some(SUSPENDED)],
            Doing::Unsuspend => [Some(SUSPENDED), None],
            Doing::Move => [Some(ACTIVE), Some(SUSPENDED)],
        }
    }

    fn change(self, recto: &Recto) -> Change {
        let all = suspensions(recto);
        match self.doing {
            Doing::Suspend => all.insert(&suspension(recto, SUSPENDED, self.day(), self.number)),
            Doing::Unsuspend => all.delete((user(self.number),)),
            Doing::Move => all.update((user(self.number),)).set("status", SUSPENDED).into(),
        }
    }

    fn day(self) -> u32 {
        1 + self.number % 28
    }

    /// Changes the user in a process that is killed at store call number `calls`. Returns `None` if
    /// the change makes fewer calls.
    async fn run(self, store: &Arc<dyn Store>) -> Option<Gone> {
        let killing = Killing::new(store, self.cut, |table| table != "recto_writers");
        let recto = Recto::with_store(Arc::clone(&killing) as Arc<dyn Store>, OpenOptions::new())
            .await
            .unwrap();
        // Let the process register itself with its first change, so that the killed change need not
        // do so.
        let nobody = suspensions(&recto).update((user(NOBODY),)).set("reason", "none");
        assert_eq!(nobody.await.unwrap_err().kind(), ErrorKind::NotFound);
        killing.arm(self.calls.into());
        let mut change = std::pin::pin!(self.change(&recto).into_future());
        let acknowledged = tokio::select! {
            changed = &mut change => changed.is_ok(),
            () = killing.killed() => false,
        };
        if acknowledged {
            // The last call may only mark the change as done, and the change does not wait for that
            // call. Wait until the process is killed.
            tokio::time::timeout(BESIDE, killing.killed()).await.ok()?;
        }
        if self.cut == Cut::Beside {
            tokio::time::sleep(BESIDE).await;
        }
        killing.kill();
        Some(Gone {
            life: self,
            acknowledged,
        })
    }
}

/// Runs the test in a store of its own, because it could otherwise regard processes of other tests
/// as dead.
pub(crate) async fn dying_between_the_tables(recto: Recto) {
    let recto = Fresh::new(stores::kind_of(&recto)).open().await;
    recto.apply(&stores::parse(super::SCHEMA)).await.unwrap();
    dying_in(recto).await;
}

pub(crate) async fn dying_in(recto: Recto) {
    let store = Arc::clone(recto.store());
    let clocks = Clocks::default();
    let options = OpenOptions::new().environment(clocks.environment());
    let survivor = Recto::with_store(Arc::clone(&store), options).await.unwrap();
    for life in Life::all() {
        if let [Some(status), _] = life.statuses() {
            let before = suspension(&survivor, status, life.day(), life.number);
            suspensions(&survivor).insert(&before).await.unwrap();
        }
    }
    let lives = stream::iter(Life::all()).map(|life| life.run(&store));
    let gone: Vec<Option<Gone>> = lives.buffer_unordered(AT_ONCE).collect().await;
    let gone: Vec<Gone> = gone.into_iter().flatten().collect();
    println!("{} processes died", gone.len());

    let (recorded, listed) = (records(&survivor).await, list(&survivor).await);
    assert!(
        listed.is_subset(&recorded),
        "shown, and not so: {:?}",
        &listed - &recorded
    );
    if store.limits().transactions {
        assert_eq!(listed, recorded, "all of it or nothing");
    } else {
        assert_ne!(listed, recorded, "nobody died between the tables");
        let pass = recover_at_once(&survivor, &clocks).await;
        assert!(pass.waiting >= gone.len(), "{pass:?}");
    }
    let (recorded, listed) = (records(&survivor).await, list(&survivor).await);
    assert_eq!(listed, recorded);
    assert_views_are_exact(&survivor, "suspensions").await;
    for Gone { life, acknowledged } in &gone {
        let found = suspensions(&survivor).get((user(life.number),)).await.unwrap();
        let status = found.map(|found| words_of(&[found], &["status"]));
        let [before, after] = life.statuses().map(|status| status.map(str::to_owned));
        assert!(
            status == after || (status == before && !acknowledged),
            "{life:?}: {status:?}"
        );
    }
    let applied = gone.iter().filter(|gone| gone.acknowledged).count();
    assert!(applied < gone.len(), "nobody died before the answer");
}

/// Returns the ids of the users whose records have the status "suspended".
async fn records(recto: &Recto) -> BTreeSet<String> {
    let mut suspended = BTreeSet::new();
    for life in Life::all() {
        let found = suspensions(recto).get((user(life.number),)).await.unwrap();
        let found = found.filter(|found| words_of(std::slice::from_ref(found), &["status"]) == SUSPENDED);
        suspended.extend(found.map(|found| words_of(&[found], &["user_id"])));
    }
    suspended
}

/// Returns the ids of the users in the view of suspended users. Reads all pages, newest suspension
/// first.
async fn list(recto: &Recto) -> BTreeSet<String> {
    let mut query = by_status(recto, SUSPENDED).first(7);
    let (mut users, mut days) = (BTreeSet::new(), Vec::new());
    loop {
        let page = query.clone().await.unwrap();
        for record in page.items() {
            days.push(words_of(std::slice::from_ref(record), &["occurred_on"]));
            let is_new = users.insert(words_of(std::slice::from_ref(record), &["user_id"]));
            assert!(is_new, "nobody is there twice");
        }
        let Some(next) = page.next_cursor() else { break };
        query = query.page_token(next);
    }
    assert!(
        days.is_sorted_by(|one, other| one >= other),
        "newest first: {days:?}"
    );
    users
}
