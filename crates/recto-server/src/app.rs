//! What all requests share, and the routes together.

use std::sync::Arc;

use axum::Router;
use recto::LocalSession;

/// What all requests share. Cheap to clone.
#[derive(Debug, Clone)]
pub struct App {
    pub(crate) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) session: LocalSession,
}

impl App {
    /// The app over an open store.
    pub fn new(session: LocalSession) -> Self {
        Self {
            shared: Arc::new(Shared { session }),
        }
    }

    pub(crate) fn session(&self) -> &LocalSession {
        &self.shared.session
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
