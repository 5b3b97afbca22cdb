//! What all requests share, and the routes together.

use axum::Router;
use recto::LocalSession;

/// What all requests share. Cheap to clone.
#[derive(Debug, Clone)]
pub struct App {
    session: LocalSession,
}

impl App {
    /// The app over an open store.
    pub fn new(session: LocalSession) -> Self {
        Self { session }
    }

    pub(crate) fn session(&self) -> &LocalSession {
        &self.session
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
