//! State that all requests share.

use std::sync::Arc;

use recto::LocalSession;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::asked::AskedQueries;
use crate::stopping::Stopping;
use crate::work::Upkeep;

/// State that all requests share. Cheap to clone.
#[derive(Debug, Clone)]
pub struct App {
    session: LocalSession,
    upkeep: Arc<Upkeep>,
    stopping: Arc<Stopping>,
    asked: Arc<AskedQueries>,
    /// Permit to search for views that a collection needs for its queries. Only one search runs at
    /// a time.
    designing: Arc<Semaphore>,
}

impl App {
    /// Creates the state for an open store, without a server that could stop.
    pub fn new(session: LocalSession) -> Self {
        Self::of_server(session, Arc::default(), Arc::default(), Arc::default())
    }

    /// Creates the state of a server. The server shares the maintenance operations, the stop signal
    /// and the query counts with it.
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

    /// Returns the permit to search for views, or `None` while another search runs. The search
    /// keeps the permit until it ends, even if the client disconnects.
    pub(crate) fn begin_design(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.designing).try_acquire_owned().ok()
    }

    /// Returns the queries of each collection that the server received since it started.
    pub(crate) fn asked(&self) -> &AskedQueries {
        &self.asked
    }
}
