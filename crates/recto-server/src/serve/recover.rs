//! Recovery after processes that died while they wrote to the served store or handled messages. The server recovers
//! even if it never writes itself and receives no request for queues.

use std::time::Duration;

use recto::LocalSession;

/// Interval of the checks that this process does the recovery. The need may arise later: the schema gains a collection
/// whose records change, or the store gains its first queue. A process that lost its registration takes another.
const SWEEP_CHECK: Duration = Duration::from_secs(10);
/// Pause after a failed recovery.
const FAILURE_PAUSE: Duration = Duration::from_secs(60);

/// Recovers until the task is aborted.
pub(super) async fn recover(session: LocalSession) {
    loop {
        let pause = match session.recover_in_background().await {
            Ok(()) => SWEEP_CHECK,
            Err(error) => {
                crate::log::warn!(%error, "the changes of dead processes cannot be completed now");
                FAILURE_PAUSE
            }
        };
        tokio::time::sleep(pause).await;
    }
}
