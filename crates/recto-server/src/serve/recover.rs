//! Looking after what processes left that died while they wrote to the store that is served, or handled messages, though the
//! server may never write itself, nor be asked for queues.

use std::time::Duration;

use recto::LocalSession;

/// How often it is seen to that this process does so: the schema may have got a collection whose records change, the store its
/// first queue, and who lost its registration takes another.
const SWEEP_CHECK: Duration = Duration::from_secs(10);
/// How long to wait after that failed.
const FAILURE_PAUSE: Duration = Duration::from_secs(60);

/// Recovers until it is aborted.
pub(super) async fn recover(session: LocalSession) {
    loop {
        let pause = match session.recover_in_background().await {
            Ok(()) => SWEEP_CHECK,
            Err(error) => {
                crate::log::warn!(%error, "what processes left that died cannot be looked after now");
                FAILURE_PAUSE
            }
        };
        tokio::time::sleep(pause).await;
    }
}
