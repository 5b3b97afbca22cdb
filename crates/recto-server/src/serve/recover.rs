//! Recovery of writes and messages of processes that died. The server recovers even if it never
//! writes itself and receives no request for queues.

use std::time::Duration;

use recto::LocalSession;

/// Interval at which the server makes sure that recovery runs in this process. It may become
/// necessary later: when a schema adds the first collection with versions, or when the first queue
/// is created. It also stops if this process loses its registration as a writer.
const SWEEP_CHECK: Duration = Duration::from_secs(10);
/// Pause after a failed recovery.
const FAILURE_PAUSE: Duration = Duration::from_secs(60);

/// Keeps recovery running until the task is aborted.
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
