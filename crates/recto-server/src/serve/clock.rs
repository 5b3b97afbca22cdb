//! Monitor of the machine's clock. A process whose clock is too far ahead must delete no expired
//! data.

use std::time::Duration;

use recto::LocalSession;
use recto::store::{ClockState, ClockStatus};

/// Interval at which the server reads the result of comparing its clock with the store's. On
/// Cassandra, the store repeats the comparison every 30 seconds.
const CLOCK_CHECK: Duration = Duration::from_secs(10);

/// Checks the machine's clock until the task is aborted, and logs each change of its state.
pub(super) async fn watch(session: LocalSession) {
    let mut logged = ClockState::Agrees;
    loop {
        let status = session.check_clock().await;
        if status.state != logged {
            log(status);
            logged = status.state;
        }
        tokio::time::sleep(CLOCK_CHECK).await;
    }
}

fn log(status: ClockStatus) {
    if let Some(warning) = status.warning() {
        crate::log::warn!(hint = status.hint(), "{warning}");
    } else {
        crate::log::info!("the clock of this machine agrees again");
    }
}
