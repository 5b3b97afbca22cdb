//! State that all requests to a server share.

use std::sync::Arc;

use recto::LocalSession;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::asked::AskedQueries;
use crate::stopping::Stopping;
use crate::work::Upkeep;

/// State that all requests to a server share. Cloning is cheap.
#[derive(Debug, Clone)]
pub struct App {
    session: LocalSession,
    upkeep: Arc<Upkeep>,
    stopping: Arc<Stopping>,
    asked: Arc<AskedQueries>,
    /// Permit to search for the views that a collection needs. A search is expensive, so only one
    /// runs at a time.
    designing: Arc<Semaphore>,
}

impl App {
    /// Creates the state for an open store, for handlers that run without a listening server.
    pub fn new(session: LocalSession) -> Self {
        Self::of_server(session, Arc::default(), Arc::default(), Arc::default())
    }

    /// Creates the state for the requests of a server, which shares its maintenance operations, its
    /// stop signal and its query counts.
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

    /// Returns the permit to search for views, or `None` while another search runs. A search keeps
    /// the permit to its end, even if the client disconnects.
    pub(crate) fn begin_design(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.designing).try_acquire_owned().ok()
    }

    /// Returns counters of the queries that the server received since it started.
    pub(crate) fn asked(&self) -> &AskedQueries {
        &self.asked
    }
}
