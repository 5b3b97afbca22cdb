//! Clock guard: compares the local clock with the clocks of coordinators before writes use its
//! time.

use std::time::Duration;

use async_trait::async_trait;
use recto_store::clock::{ClockReading, compare_clocks};
use recto_store::{ClockGuard, ClockStatus, StoreError, StoreErrorKind};

use crate::client::Client;
use crate::store::CassandraStore;

/// Number of coordinators whose clocks are compared with the local one.
const CLOCKS_COMPARED: usize = 2;
/// Maximum time for which a write waits until the local clock has been compared.
const STAMP_WAIT: Duration = Duration::from_secs(1);
/// Maximum time of a comparison that a write starts.
const STAMP_COMPARISON_TIMEOUT: Duration = Duration::from_secs(5);

impl Client {
    async fn read_clocks(&self, timeout: Duration) -> Result<Vec<ClockReading>, StoreError> {
        let deadline = self.request_deadline(timeout);
        let mut readings = Vec::with_capacity(CLOCKS_COMPARED);
        // Send several requests, because different requests usually reach different coordinators.
        for _ in 0..CLOCKS_COMPARED {
            let reading = compare_clocks(&self.environment, self.now_micros(&deadline)).await?;
            readings.push(reading);
        }
        Ok(readings)
    }
}

#[async_trait]
impl ClockGuard for CassandraStore {
    async fn compare(&self, timeout: Duration) {
        let client = self.client();
        client.clock.compare(timeout, client.read_clocks(timeout)).await;
    }

    async fn may_stamp(&self) -> bool {
        let compare = || {
            let store = self.clone();
            async move { store.compare(STAMP_COMPARISON_TIMEOUT).await }
        };
        self.client().clock.may_stamp(STAMP_WAIT, compare).await
    }

    fn allows(&self, _retention: Duration) -> bool {
        self.client().clock.allows()
    }

    fn status(&self, _shortest: Option<Duration>) -> ClockStatus {
        self.client().clock.status()
    }

    async fn confirm(&self, _timeout: Duration) -> Result<i64, StoreError> {
        Err(StoreError::new(
            StoreErrorKind::Invalid,
            "only the clock of an embedded store can be confirmed",
        )
        .with_hint("set the clock of this machine; Recto compares it with the clocks of the nodes"))
    }
}
