//! Limits of concurrent requests for single tokens.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Numbers of concurrent requests by token. A token without requests has no entry.
#[derive(Debug)]
pub(crate) struct Shares {
    most: u64,
    taken: Mutex<HashMap<u64, u64>>,
}

/// Count of one request of a token. Dropping it ends the count.
#[derive(Debug)]
pub(crate) struct Share {
    shares: Arc<Shares>,
    token: u64,
}

impl Shares {
    pub(crate) fn new(most: u64) -> Arc<Self> {
        Arc::new(Self {
            most,
            taken: Mutex::default(),
        })
    }

    /// Counts a request of a token. Returns `None` if the token has reached its maximum of
    /// concurrent requests.
    pub(crate) fn take(self: &Arc<Self>, token: u64) -> Option<Share> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(token).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Share {
            shares: Arc::clone(self),
            token,
        })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.shares.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.token) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.token);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn each_token_has_its_own_places() {
        let shares = Shares::new(2);
        let (one, two) = (shares.take(1).unwrap(), shares.take(1).unwrap());
        assert!(shares.take(1).is_none());
        let other = shares.take(2).unwrap();
        drop(one);
        assert!(shares.take(1).is_some());
        drop((two, other));
        assert!(shares.taken.lock().unwrap().is_empty());
    }
}
