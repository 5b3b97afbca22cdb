//! Who asks, and the session that is theirs.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use recto::schema::{Collection, Schema};
use recto::{LocalSession, Session};

use crate::access::{Access, Right};
use crate::app::App;
use crate::problem::Problem;
use crate::work::Upkeep;

/// A request's access to the app.
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
    /// The app's own session, for what [`Access`] is asked about next.
    pub(crate) fn app_session(&self) -> &LocalSession {
        self.app.session()
    }

    pub(super) fn upkeep(&self) -> &Arc<Upkeep> {
        self.app.upkeep()
    }

    /// The session to do this with.
    pub(crate) fn session(&self, collection: &str, right: Right) -> Result<Arc<dyn Session>, Problem> {
        self.access.session(self.app.session(), collection, right)
    }

    /// The session to do this with a queue with.
    pub(super) fn queue_session(&self, queue: &str, right: Right) -> Result<Arc<dyn Session>, Problem> {
        self.access.check_queue(queue, right)?;
        Ok(self.any_queue_session())
    }

    /// The session to do things with queues with that [`Access`] is asked about.
    pub(super) fn any_queue_session(&self) -> Arc<dyn Session> {
        Access::queue_session(self.app.session())
    }

    /// Returns when whoever waits is to be answered: the server stops, or their token is taken no more, or allows something else.
    pub(super) async fn waits_no_more(&self) {
        tokio::select! {
            () = self.app.stopping().begun() => {}
            () = self.access.ended() => {}
        }
    }

    /// The schema, with the collections that are seen only.
    pub(crate) async fn schema(&self) -> Result<Schema, Problem> {
        let mut schema = Schema::clone(&*self.app.session().schema().await?);
        schema
            .collections
            .retain(|collection| self.access.sees(&collection.name));
        Ok(schema)
    }

    /// The definition of a collection that is seen.
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
