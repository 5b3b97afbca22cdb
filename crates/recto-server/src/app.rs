//! What all requests share.

use std::sync::Arc;

use recto::LocalSession;

use crate::work::Upkeep;

/// What all requests share. Cheap to clone.
#[derive(Debug, Clone)]
pub struct App {
    session: LocalSession,
    upkeep: Arc<Upkeep>,
}

impl App {
    /// The app over an open store.
    pub fn new(session: LocalSession) -> Self {
        Self::with_upkeep(session, Arc::default())
    }

    pub(crate) fn with_upkeep(session: LocalSession, upkeep: Arc<Upkeep>) -> Self {
        Self { session, upkeep }
    }

    pub(crate) fn session(&self) -> &LocalSession {
        &self.session
    }

    pub(crate) fn upkeep(&self) -> &Arc<Upkeep> {
        &self.upkeep
    }
}
