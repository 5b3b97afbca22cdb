//! What all requests share.

use std::sync::Arc;

use recto::LocalSession;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::asked::AskedQueries;
use crate::stopping::Stopping;
use crate::work::Upkeep;

/// What all requests share. Cheap to clone.
#[derive(Debug, Clone)]
pub struct App {
    session: LocalSession,
    upkeep: Arc<Upkeep>,
    stopping: Arc<Stopping>,
    asked: Arc<AskedQueries>,
    /// One search for views at a time.
    designing: Arc<Semaphore>,
}

impl App {
    /// The app over an open store.
    pub fn new(session: LocalSession) -> Self {
        Self::of_server(session, Arc::default(), Arc::default(), Arc::default())
    }

    /// The app of a server that has work done, and stops.
    pub(crate) fn of_server(
        session: LocalSession,
        upkeep: Arc<Upkeep>,
        stopping: Arc<Stopping>,
        asked: Arc<AskedQueries>,
    ) -> Self {
        Self {
            session,
            upkeep,
            stopping,
            asked,
            designing: Arc::new(Semaphore::new(1)),
        }
    }

    pub(crate) fn session(&self) -> &LocalSession {
        &self.session
    }

    pub(crate) fn upkeep(&self) -> &Arc<Upkeep> {
        &self.upkeep
    }

    pub(crate) fn stopping(&self) -> &Stopping {
        &self.stopping
    }

    /// What a search for views holds as long as it takes, whoever waits for it; none: there is one now.
    pub(crate) fn begin_design(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.designing).try_acquire_owned().ok()
    }

    /// What was asked of each collection since the server was started.
    pub(crate) fn asked(&self) -> &AskedQueries {
        &self.asked
    }
}
