//! Checks what the error for a rejected cursor reveals to an attacker, and what the cost of the
//! rejection reveals.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use recto::{OpenOptions, Recto};
use recto_plan::cursor::CursorError;

use super::counting::{Calls, Counting};
use super::support::{BEGIN_SECONDS, Clock, events, refused, times};

/// Number of page requests that [`refused`] makes.
const REQUESTS: u64 = 4;

pub(crate) async fn an_expired_cursor_says_when(recto: Recto) {
    let clock = Clock::new();
    let options = OpenOptions::new()
        .environment(clock.environment())
        .cursor_lifetime(Duration::from_secs(60));
    let recto = Recto::with_store(Arc::clone(recto.store()), options)
        .await
        .unwrap();
    let query = events(&recto, "expired", 6).await;
    let cursor = query.clone().first(3).await.unwrap().cursor(2).to_string();
    clock.pass_seconds(59);
    assert_eq!(
        times(&query.clone().first(3).after(cursor.clone()).await.unwrap()),
        [2, 1, 0]
    );
    for _ in 0..2 {
        clock.pass_seconds(1);
        assert_eq!(
            refused(&query, &cursor).await,
            CursorError::Expired {
                expired_at_seconds: BEGIN_SECONDS as u64 + 60
            }
        );
    }
}

/// Checks that rejecting a forged cursor costs the same as rejecting an expired one: no store call,
/// and one reading of the clock. This must be so whichever part of the cursor is altered. The
/// comment on `recto_plan::cursor::open` explains why the comparison of tags takes constant time.
pub(crate) async fn a_forged_cursor_costs_what_an_expired_one_costs(recto: Recto) {
    let (clock, calls) = (Clock::new(), Arc::new(Calls::default()));
    let store = Arc::new(Counting {
        inner: Arc::clone(recto.store()),
        calls: Arc::clone(&calls),
    });
    let options = OpenOptions::new()
        .environment(clock.environment())
        .cursor_lifetime(Duration::from_secs(60));
    // Let another handle write the rows. A handle that writes also renews its registration, which
    // would count as calls.
    events(&recto, "telling", 6).await;
    let recto = Recto::with_store(store, options).await.unwrap();
    let query = events(&recto, "telling", 0).await;
    let cursor = query.clone().first(3).await.unwrap().cursor(2).to_string();
    let cost = |reason: CursorError| (reason, calls.take(), clock.readings.swap(0, Ordering::Relaxed));
    clock.pass_seconds(60);
    let bytes = URL_SAFE_NO_PAD.decode(&cursor).unwrap();
    cost(CursorError::Empty);
    let (expired, expired_calls, expired_readings) = cost(refused(&query, &cursor).await);
    assert!(matches!(expired, CursorError::Expired { .. }), "{expired}");
    assert_eq!(expired_calls, (0, 0, 0));
    assert_eq!(expired_readings, REQUESTS);
    // Change one bit of each byte after the version and the key id.
    for at in 5..bytes.len() {
        let mut forged = bytes.clone();
        forged[at] ^= 1 << (at % 8);
        let (reason, forged_calls, readings) = cost(refused(&query, &URL_SAFE_NO_PAD.encode(&forged)).await);
        assert_eq!(reason, CursorError::NotOurs);
        assert_eq!(
            (forged_calls, readings),
            (expired_calls, expired_readings),
            "byte {at}"
        );
    }
}
