//! Recovery of changes and messages that crashed processes left incomplete. The server recovers
//! them even if it gets no writes and no requests for queues.

use std::time::Duration;

use recto::LocalSession;

/// Interval at which the server checks that recovery runs in its process. Recovery can become
/// necessary later, when a schema adds the first collection with versions, or when the first queue
/// is created. It also stops if the process loses its registration as a writer.
const SWEEP_CHECK: Duration = Duration::from_secs(10);
/// Pause after a failed recovery of crashed processes' changes.
const FAILURE_PAUSE: Duration = Duration::from_secs(60);

/// Keeps the recovery of crashed processes' changes running until the task is aborted.
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
