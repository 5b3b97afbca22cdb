//! Retries of requests whose outcome is unknown.
//!
//! Writes, loads, the catalog and changes of tables all use this module. It sends the same request
//! again after a random pause: a write with the same timestamps, a conditional write with the same
//! condition. It stops when the outcome is known, or when the [`Policy`] allows no further attempt.
//! After an attempt with an unknown outcome, only a successful attempt resolves the request. If a
//! later attempt is rejected or fails, the earlier attempt may still be applied.

use std::time::Duration;

use recto_model::Environment;
use recto_store::StoreError;

use crate::error::{Error, ErrorKind};

/// Maximum number of attempts of a request whose outcome is unknown.
const MAX_ATTEMPTS: u32 = 3;
/// Approximate wait before the second attempt of a write. Each further wait is twice as long.
const WRITE_PAUSE: Duration = Duration::from_millis(50);
/// Approximate wait before the second attempt to change a table. It is long, because all nodes of a
/// cluster must learn of the change.
const TABLE_PAUSE: Duration = Duration::from_millis(500);
/// Maximum time for which a failed write of a load is retried, counted from its first failure. In
/// this time, unreachable or busy nodes usually recover.
const MAX_FAILING: Duration = Duration::from_secs(30);
/// Approximate wait before the second attempt of a write of a load. Each further wait is twice as long.
const LOAD_PAUSE: Duration = Duration::from_millis(100);
/// Approximate maximum wait before any attempt.
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// Limits of the retries of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Policy {
    attempts: u32,
    /// Approximate wait before the second attempt. Each further wait is twice as long, up to [`MAX_PAUSE`]. The actual
    /// wait is random, so that clients that failed together do not retry together.
    pause: Duration,
    time: Time,
    /// True if an attempt that failed without effect is also retried.
    fails_in_passing: bool,
}

/// Limit of the time that all attempts of a request take together.
#[derive(Debug, Clone, Copy)]
enum Time {
    /// Time that is counted from the beginning of the first attempt.
    InAll(Duration),
    /// Time that is counted from the first failure.
    Failing(Duration),
}

impl Policy {
    /// Policy of a write for which a caller waits: all attempts together take at most the time of one request.
    pub(crate) fn write(timeout: Duration) -> Self {
        Self {
            attempts: MAX_ATTEMPTS,
            pause: WRITE_PAUSE,
            time: Time::InAll(timeout),
            fails_in_passing: false,
        }
    }

    /// Policy of a conditional write of the catalog. Each attempt may take the full time of one request.
    pub(crate) const CATALOG: Self = Self {
        attempts: MAX_ATTEMPTS,
        pause: WRITE_PAUSE,
        time: Time::InAll(Duration::MAX),
        fails_in_passing: false,
    };

    /// Policy of a request that creates, extends or drops a table.
    pub(crate) const TABLE: Self = Self {
        attempts: MAX_ATTEMPTS,
        pause: TABLE_PAUSE,
        time: Time::InAll(Duration::MAX),
        fails_in_passing: false,
    };

    /// Policy of work that takes hours, such as a load. It retries for 30 s after a failure, because a delay
    /// is better than a stop.
    pub(crate) const LOAD: Self = Self {
        attempts: u32::MAX,
        pause: LOAD_PAUSE,
        time: Time::Failing(MAX_FAILING),
        fails_in_passing: true,
    };

    /// Policy of a read on which a change of a record depends.
    pub(crate) const READ: Self = Self {
        attempts: MAX_ATTEMPTS,
        pause: WRITE_PAUSE,
        time: Time::InAll(Duration::MAX),
        fails_in_passing: true,
    };

    /// Policy of the write of a view's entry. It retries without limit, because the record was already
    /// changed.
    pub(crate) const ENTRY: Self = Self {
        attempts: u32::MAX,
        pause: WRITE_PAUSE,
        time: Time::InAll(Duration::MAX),
        fails_in_passing: true,
    };

    /// Returns the wait after an attempt: a random time between 50% and 150% of the planned wait.
    fn pause(&self, attempt: u32, environment: &Environment) -> Duration {
        let doubled = 1_u32.checked_shl(attempt - 1).unwrap_or(u32::MAX);
        let due = self.pause.saturating_mul(doubled).min(MAX_PAUSE);
        let [drawn] = environment.random::<1>();
        due / 2 + due * u32::from(drawn) / 256
    }
}

/// Outcome of one attempt to send a request.
pub(crate) enum Attempt<T, E> {
    /// The outcome of the request is known, including the outcome of all earlier attempts.
    Known(T),
    /// The outcome of the attempt is unknown. It may be applied, now or later.
    Unknown(StoreError),
    /// The attempt had no effect. Another attempt may have an effect.
    Failed(E),
    /// The attempt had no effect, and another attempt would have none.
    Refused(E),
}

/// Reason why a request did not succeed.
pub(crate) enum Unsettled<E> {
    /// The request had no effect, and will have none.
    NotApplied(E),
    /// The request may be applied, now or later. To send the same request again resolves the
    /// outcome.
    Unknown(StoreError),
}

impl<E> Unsettled<E> {
    /// Returns the error of the request. `unknown` creates the error for an unknown outcome.
    pub(crate) fn or(self, unknown: impl FnOnce(StoreError) -> E) -> E {
        match self {
            Self::NotApplied(error) => error,
            Self::Unknown(error) => unknown(error),
        }
    }
}

/// Makes attempts until the outcome of the request is known. Passes the remaining time to each attempt as its
/// limit.
///
/// # Errors
/// The request was not applied, or its outcome is still unknown when the policy allows no further attempt.
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

/// Returns whether an error of kind `kind` may be transient.
pub(crate) fn is_passing(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::OutcomeUnknown
    )
}

/// Runs `work` for which no caller waits, such as a load or a comparison of views. Runs it again after a
/// transient error, so running it twice must have the same effect as once.
///
/// # Errors
/// The errors of `work` that are not transient, or that last longer than [`MAX_FAILING`].
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

    /// Source of time that advances only while all tasks sleep, and of fixed random bytes.
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
        /// Start of each attempt, in milliseconds.
        begun_ms: Vec<u128>,
        /// Outcome of the request: its result, or `unknown` if the outcome remained unknown.
        ended: Result<&'static str, &'static str>,
    }

    /// Runs a request whose attempts return `answers`, with the last answer repeated. Each attempt takes the
    /// time `takes`.
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
            // Timers have a resolution of a millisecond and are never early, so
            // allow 2 ms of delay.
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
        // `run` does not sleep if no time would be left after the pause.
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
                // The time of a load counts from its first failure, so a slow first attempt
                // does not reduce it.
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
