//! Requests whose outcome is unknown, sent again until it is known.
//!
//! There is one way to do this, for writes, loads, the catalog and tables: the same request (a write with
//! the same stamps, a conditional one with the same condition) is sent again after a pause that is drawn at
//! random, until it is known what became of it or a [`Policy`] says that it is enough. Once an attempt's
//! outcome is unknown nothing but success settles it: what a later attempt is refused or fails by says
//! nothing of the earlier one, which may still be applied.

use std::time::Duration;

use recto_model::Environment;
use recto_store::StoreError;

use crate::error::{Error, ErrorKind};

/// How often a request is sent whose outcome is unknown.
const MAX_ATTEMPTS: u32 = 3;
/// About how long to wait before the second attempt at a write; each further wait is twice as long.
const WRITE_PAUSE: Duration = Duration::from_millis(50);
/// About how long to wait before the second attempt at changing a table, of which all nodes must hear.
const TABLE_PAUSE: Duration = Duration::from_millis(500);
/// For how long after it first failed a write of a load is sent again: for nodes that are away, or busy
/// with themselves.
const MAX_FAILING: Duration = Duration::from_secs(30);
/// About how long a load waits before the second attempt at a write.
const LOAD_PAUSE: Duration = Duration::from_millis(100);
/// About the longest wait before an attempt.
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// How often, after which pauses and for how long a request is sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Policy {
    attempts: u32,
    /// About how long to wait before the second attempt; each further wait is twice as long, up to
    /// [`MAX_PAUSE`]. What is waited is drawn around it, so that those who failed together do not come
    /// again together.
    pause: Duration,
    time: Time,
    /// Whether it is sent again, too, after an attempt of which is known that it did nothing.
    fails_in_passing: bool,
}

/// How long all attempts together may take.
#[derive(Debug, Clone, Copy)]
enum Time {
    /// From the first one's beginning.
    InAll(Duration),
    /// From the first one's failure.
    Failing(Duration),
}

impl Policy {
    /// Somebody waits for it, for as long as one request may take.
    pub(crate) fn write(timeout: Duration) -> Self {
        Self {
            attempts: MAX_ATTEMPTS,
            pause: WRITE_PAUSE,
            time: Time::InAll(timeout),
            fails_in_passing: false,
        }
    }

    /// A conditional write of the catalog: each attempt may take as long as one request may.
    pub(crate) const CATALOG: Self = Self {
        attempts: MAX_ATTEMPTS,
        pause: WRITE_PAUSE,
        time: Time::InAll(Duration::MAX),
        fails_in_passing: false,
    };

    /// Changing a table.
    pub(crate) const TABLE: Self = Self {
        attempts: MAX_ATTEMPTS,
        pause: TABLE_PAUSE,
        time: Time::InAll(Duration::MAX),
        fails_in_passing: false,
    };

    /// Work of hours that is better late than stopped.
    pub(crate) const LOAD: Self = Self {
        attempts: u32::MAX,
        pause: LOAD_PAUSE,
        time: Time::Failing(MAX_FAILING),
        fails_in_passing: true,
    };

    /// A read on behalf of a change.
    pub(crate) const READ: Self = Self {
        attempts: MAX_ATTEMPTS,
        pause: WRITE_PAUSE,
        time: Time::InAll(Duration::MAX),
        fails_in_passing: true,
    };

    /// An entry of a view, which is written until it is: the record says that it must be.
    pub(crate) const ENTRY: Self = Self {
        attempts: u32::MAX,
        pause: WRITE_PAUSE,
        time: Time::InAll(Duration::MAX),
        fails_in_passing: true,
    };

    /// How long to wait after an attempt: between half and one and a half of what is due.
    fn pause(&self, attempt: u32, environment: &Environment) -> Duration {
        let doubled = 1_u32.checked_shl(attempt - 1).unwrap_or(u32::MAX);
        let due = self.pause.saturating_mul(doubled).min(MAX_PAUSE);
        let [drawn] = environment.random::<1>();
        due / 2 + due * u32::from(drawn) / 256
    }
}

/// How one attempt ended.
pub(crate) enum Attempt<T, E> {
    /// It is known what became of the request: of this attempt and of those before it.
    Known(T),
    /// It may be applied, now or later.
    Unknown(StoreError),
    /// Nothing of this attempt is applied; another one may be.
    Failed(E),
    /// Nothing of this attempt is applied, nor would be of another one.
    Refused(E),
}

/// Why a request is not known to be applied.
pub(crate) enum Unsettled<E> {
    /// Nothing of it is applied, nor will be.
    NotApplied(E),
    /// It may be applied, now or later. The same request, later on, finds out.
    Unknown(StoreError),
}

impl<E> Unsettled<E> {
    /// The error, given that of an outcome that stays unknown.
    pub(crate) fn or(self, unknown: impl FnOnce(StoreError) -> E) -> E {
        match self {
            Self::NotApplied(error) => error,
            Self::Unknown(error) => unknown(error),
        }
    }
}

/// Makes attempts, each told how much time is left, until it is known what became of the request.
///
/// # Errors
/// It was not applied, or that is still not known when the policy says that it is enough.
pub(crate) async fn settle<T, E, F>(
    environment: &Environment,
    policy: Policy,
    mut attempt: impl FnMut(Duration) -> F,
) -> Result<T, Unsettled<E>>
where
    F: Future<Output = Attempt<T, E>>,
{
    let mut since_nanos = match policy.time {
        Time::InAll(_) => Some(environment.monotonic_nanos()),
        Time::Failing(_) => None,
    };
    let (Time::InAll(time) | Time::Failing(time)) = policy.time;
    let left = |since_nanos: Option<u64>| {
        let since = since_nanos.map(|since| environment.monotonic_nanos().saturating_sub(since));
        time.saturating_sub(Duration::from_nanos(since.unwrap_or(0)))
    };
    let mut earlier: Option<Unsettled<E>> = None;
    let mut attempts = 0;
    loop {
        attempts += 1;
        let ended = match (attempt(left(since_nanos)).await, earlier) {
            (Attempt::Known(known), _) => return Ok(known),
            (Attempt::Unknown(error), _) => Unsettled::Unknown(error),
            (Attempt::Failed(_), Some(unknown @ Unsettled::Unknown(_))) => unknown,
            (Attempt::Refused(_), Some(unknown @ Unsettled::Unknown(_))) => return Err(unknown),
            (Attempt::Failed(error), _) if policy.fails_in_passing => Unsettled::NotApplied(error),
            (Attempt::Failed(error) | Attempt::Refused(error), _) => {
                return Err(Unsettled::NotApplied(error));
            }
        };
        since_nanos = since_nanos.or_else(|| Some(environment.monotonic_nanos()));
        let pause = policy.pause(attempts, environment);
        if attempts == policy.attempts || pause >= left(since_nanos) {
            return Err(ended);
        }
        earlier = Some(ended);
        tokio::time::sleep(pause).await;
    }
}

/// Returns whether an error may go away by itself.
pub(crate) fn is_passing(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::OutcomeUnknown
    )
}

/// Does work of which nobody waits for a single request, such as a load or a comparison of views: tries again after an
/// error that may go away by itself. `work` has the same effect if it is done again.
///
/// # Errors
/// Those of `work` that do not go away, or not within [`MAX_FAILING`].
pub(crate) async fn patiently<T, F>(
    environment: &Environment,
    mut work: impl FnMut() -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let attempt = |_| {
        let done = work();
        async {
            match done.await {
                Ok(done) => Attempt::Known(done),
                Err(error) if is_passing(error.kind()) => Attempt::Failed(error),
                Err(error) => Attempt::Refused(error),
            }
        }
    };
    let settled = settle(environment, Policy::LOAD, attempt).await;
    settled.map_err(|unsettled| unsettled.or(Error::from))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::{Arc, Mutex};

    use recto_model::environment::Source;
    use recto_store::StoreErrorKind;
    use tokio::time::Instant;

    use super::*;

    /// The clock that sleeping tasks have, so that it stands still but for them; and what is drawn.
    struct Virtual {
        start: Instant,
        drawn: u8,
    }

    impl Source for Virtual {
        fn now_micros(&self) -> i64 {
            0
        }

        fn monotonic_nanos(&self) -> u64 {
            u64::try_from(self.start.elapsed().as_nanos()).unwrap()
        }

        fn fill_random(&self, bytes: &mut [u8]) {
            bytes.fill(self.drawn);
        }
    }

    type Answer = fn() -> Attempt<&'static str, &'static str>;

    fn unknown() -> Attempt<&'static str, &'static str> {
        Attempt::Unknown(StoreError::new(StoreErrorKind::Timeout, "no answer"))
    }

    struct Seen {
        /// When each attempt began, in milliseconds.
        begun_ms: Vec<u128>,
        /// What became of it; an outcome that stays unknown is `unknown`.
        ended: Result<&'static str, &'static str>,
    }

    /// Settles what gives these answers, the last of them for ever; each attempt takes `takes`.
    async fn run(policy: Policy, drawn: u8, takes: Duration, answers: &[Answer]) -> Seen {
        let start = Instant::now();
        let environment = Environment::new(Virtual { start, drawn });
        let begun = Arc::new(Mutex::new(Vec::new()));
        let attempt = |left: Duration| {
            let mut begun = begun.lock().unwrap();
            let answer = answers[begun.len().min(answers.len() - 1)];
            begun.push(start.elapsed().as_millis());
            async move {
                tokio::time::sleep(takes.min(left)).await;
                answer()
            }
        };
        let ended = settle(&environment, policy, attempt).await;
        let begun_ms = begun.lock().unwrap().clone();
        Seen {
            begun_ms,
            ended: ended.map_err(|unsettled| unsettled.or(|_| "unknown")),
        }
    }

    const NO_TIME: Duration = Duration::ZERO;
    const IN_TIME: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn a_write_is_sent_three_times_with_pauses_that_are_drawn() {
        for (drawn, begun_ms) in [(0, [0, 25, 75]), (128, [0, 50, 150]), (255, [0, 74, 224])] {
            let seen = run(Policy::write(IN_TIME), drawn, NO_TIME, &[unknown]).await;
            // Timers have a resolution of a millisecond, and are never early.
            let late: Vec<u128> = seen
                .begun_ms
                .iter()
                .zip(begun_ms)
                .map(|(seen, due)| seen - due)
                .collect();
            assert!(late.iter().all(|late| *late <= 2), "{drawn}: {late:?}");
            assert_eq!((seen.begun_ms.len(), seen.ended), (3, Err("unknown")));
        }
        let seen = run(
            Policy::write(IN_TIME),
            9,
            NO_TIME,
            &[unknown, || Attempt::Known("done")],
        )
        .await;
        assert_eq!((seen.begun_ms.len(), seen.ended), (2, Ok("done")));
    }

    #[tokio::test(start_paused = true)]
    async fn all_attempts_at_a_write_share_its_time() {
        let slow = Duration::from_secs(7);
        let seen = run(Policy::write(IN_TIME), 0, slow, &[unknown]).await;
        assert_eq!((seen.begun_ms.len(), seen.ended), (2, Err("unknown")));
        assert_eq!(
            run(Policy::write(slow), 0, IN_TIME, &[unknown]).await.begun_ms,
            [0]
        );
        // No pause is waited after which there is no time.
        let start = Instant::now();
        run(Policy::write(Duration::from_millis(20)), 0, NO_TIME, &[unknown]).await;
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn after_an_unknown_outcome_only_success_settles_it() {
        let refused: Answer = || Attempt::Refused("refused");
        let failed: Answer = || Attempt::Failed("failed");
        for policy in [
            Policy::write(IN_TIME),
            Policy::CATALOG,
            Policy::TABLE,
            Policy::LOAD,
        ] {
            let seen = run(policy, 0, NO_TIME, &[refused]).await;
            assert_eq!((seen.begun_ms.len(), seen.ended), (1, Err("refused")));
            let seen = run(policy, 0, NO_TIME, &[unknown, refused]).await;
            assert_eq!((seen.begun_ms.len(), seen.ended), (2, Err("unknown")));
            let seen = run(policy, 0, NO_TIME, &[unknown, failed, || Attempt::Known("done")]).await;
            assert_eq!((seen.begun_ms.len(), seen.ended), (3, Ok("done")));
            let seen = run(policy, 0, NO_TIME, &[unknown, failed]).await;
            assert_eq!(seen.ended, Err("unknown"));
        }
        for policy in [Policy::write(IN_TIME), Policy::CATALOG, Policy::TABLE] {
            let seen = run(policy, 0, NO_TIME, &[failed]).await;
            assert_eq!((seen.begun_ms.len(), seen.ended), (1, Err("failed")));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_load_goes_on_for_half_a_minute_after_it_first_failed() {
        let failed: Answer = || Attempt::Failed("failed");
        for (answer, ended) in [(failed, "failed"), (unknown as Answer, "unknown")] {
            for drawn in [0, 255] {
                // What the first attempt takes does not count.
                let minute = Duration::from_secs(60);
                let seen = run(Policy::LOAD, drawn, minute, &[answer]).await;
                assert_eq!((seen.begun_ms.len(), seen.ended), (2, Err(ended)));
                let seen = run(Policy::LOAD, drawn, NO_TIME, &[answer]).await;
                let pauses_ms = seen.begun_ms.windows(2).map(|pair| pair[1] - pair[0]);
                assert!(pauses_ms.clone().all(|pause| (50..=3_001).contains(&pause)));
                assert!((12..=35).contains(&seen.begun_ms.len()), "{:?}", seen.begun_ms);
                let last = *seen.begun_ms.last().unwrap();
                assert!((26_000..30_000).contains(&last), "{last}");
                assert_eq!(seen.ended, Err(ended));
            }
        }
    }
}
