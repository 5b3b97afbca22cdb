//! Caller of a request: its rights, and its sessions of the store.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use recto::schema::{Collection, Schema};
use recto::{LocalSession, Session};

use crate::access::{Access, Right};
use crate::app::App;
use crate::problem::Problem;
use crate::work::Upkeep;

/// Caller of a request: the server's state, and the rights of the request's token.
#[derive(Debug)]
pub(crate) struct Caller {
    app: App,
    pub(crate) access: Access,
}

impl FromRequestParts<App> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let access = parts.extensions.get::<Access>().cloned();
        Ok(Self {
            app: app.clone(),
            access: access.ok_or_else(|| Problem::internal("the request came past the guard"))?,
        })
    }
}

impl Caller {
    /// Returns the session of the server, which is not restricted. Check rights with [`Access`]
    /// before using it.
    pub(crate) fn app_session(&self) -> &LocalSession {
        self.app.session()
    }

    pub(super) fn upkeep(&self) -> &Arc<Upkeep> {
        self.app.upkeep()
    }

    /// Returns a session for one right in a collection.
    pub(crate) fn session(&self, collection: &str, right: Right) -> Result<Arc<dyn Session>, Problem> {
        self.access.session(self.app.session(), collection, right)
    }

    /// Returns a session for one right for a queue.
    pub(super) fn queue_session(&self, queue: &str, right: Right) -> Result<Arc<dyn Session>, Problem> {
        self.access.check_queue(queue, right)?;
        Ok(self.any_queue_session())
    }

    /// Returns a session for all queues. Check rights with [`Access`] before using it.
    pub(super) fn any_queue_session(&self) -> Arc<dyn Session> {
        Access::queue_session(self.app.session())
    }

    /// Waits until a waiting request must be answered: when the server stops, or when the token
    /// expires or is revoked or changed.
    pub(super) async fn waits_no_more(&self) {
        tokio::select! {
            () = self.app.stopping().begun() => {}
            () = self.access.ended() => {}
        }
    }

    /// Returns the schema without the collections that the caller must not see.
    pub(crate) async fn schema(&self) -> Result<Schema, Problem> {
        let mut schema = Schema::clone(&*self.app.session().schema().await?);
        schema
            .collections
            .retain(|collection| self.access.sees(&collection.name));
        Ok(schema)
    }

    /// Returns the definition of a collection, if the caller sees the collection.
    pub(crate) async fn definition(&self, name: &str) -> Result<Arc<Collection>, Problem> {
        if !self.access.sees(name) {
            return Err(Problem::no_collection(name));
        }
        let schema = self.app.session().schema().await?;
        schema
            .collection(name)
            .cloned()
            .ok_or_else(|| Problem::no_collection(name))
    }
}
