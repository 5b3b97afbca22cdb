//! What all requests share, and the routes together.

use std::sync::Arc;

use axum::Router;
use recto::LocalSession;

use crate::api::Upkeep;

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

/// All routes, without guards: those of `/v1` take an [`Access`](crate::access::Access) from the
/// request's extensions and answer 500 without one.
pub fn router(app: App) -> Router {
    crate::api::routes()
        .merge(crate::openapi::routes())
        .merge(crate::console::routes())
        .with_state(app)
}
