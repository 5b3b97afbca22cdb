//! Sessions that are restricted to the rights of a request and to the rows that it may see.

use std::collections::BTreeMap;
use std::sync::Arc;

use recto::session::{MisfitCounts, ViewStatus};
use recto::{LocalSession, Session};

use crate::operation::Observed;
use crate::problem::Problem;
use crate::rights::queue_of;
pub use crate::rights::{Access, EVERY_COLLECTION, EVERY_QUEUE, Grant, QUEUE_PREFIX, Right, STORE};

impl Access {
    /// Returns a session for one right in a collection, restricted to the rows that the token's
    /// grant allows.
    ///
    /// # Errors
    /// 404 if the token has no right in the collection, 403 if it has only other rights.
    pub fn session(
        &self,
        session: &LocalSession,
        collection: &str,
        right: Right,
    ) -> Result<Arc<dyn Session>, Problem> {
        self.session_over(session, [(collection, right)])
    }

    /// Returns a session for rights in several collections, restricted to the rows that the grant
    /// of each collection allows.
    ///
    /// # Errors
    /// The errors of [`session`](Self::session), for the first missing right.
    pub fn session_over<'a>(
        &self,
        session: &LocalSession,
        needed: impl IntoIterator<Item = (&'a str, Right)>,
    ) -> Result<Arc<dyn Session>, Problem> {
        let mut rows = BTreeMap::new();
        let (mut is_restricted, mut reads_all) = (false, true);
        for (collection, right) in needed {
            // Restrict a session that reads, unless the token sees every collection: a reply must
            // not name a collection that the token cannot see.
            is_restricted |= right == Right::Read && !self.sees_every_collection();
            reads_all &= self.reads_all_of(collection);
            let grant = self.granted_right(collection, right)?;
            if !grant.rows.is_empty() {
                rows.insert(collection.to_owned(), grant.rows.clone());
            }
        }
        let session = if reads_all {
            session.clone()
        } else {
            session.without_holders()
        };
        if rows.is_empty() && !is_restricted {
            return Ok(Arc::new(Observed::new(session)));
        }
        let restricted = session.restricted(rows.clone());
        Ok(Arc::new(Observed::of_rows(restricted, rows)))
    }

    /// Returns a session for queues that records metrics. The session does not check rights. So
    /// call [`check_queue`](Self::check_queue) first.
    pub(crate) fn queue_session(session: &LocalSession) -> Arc<dyn Session> {
        Arc::new(Observed::new(session.clone()))
    }

    /// Checks that the token has a right for a queue. A work unit (temporary queue) has the rights
    /// of its queue.
    ///
    /// # Errors
    /// 404 if the token has no right for the queue, as for a queue that does not exist. 403 if it
    /// has only other rights.
    pub(crate) fn check_queue(&self, queue: &str, right: Right) -> Result<(), Problem> {
        let queue = queue_of(queue);
        match self.of_queue(queue) {
            [] => Err(Problem::no_queue(queue)),
            rights if rights.contains(&right) => Ok(()),
            _ if self.is_read_only() && right.changes() => Err(Problem::read_only()),
            _ => Err(Problem::forbidden_queue(queue, right)),
        }
    }

    /// Checks that the token has a right for every queue. Requests about the tables that all queues
    /// share need the right.
    ///
    /// # Errors
    /// 403 if the token does not have the right.
    pub(crate) fn check_every_queue(&self, right: Right) -> Result<(), Problem> {
        if self.allows_every_queue(right) {
            return Ok(());
        }
        Err(Problem::forbidden_queue(EVERY_QUEUE, right))
    }

    /// Returns the views of collections that the token may read, with their states. Leaves out
    /// numbers of rows for a token that may read only some rows.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn views(&self, session: &LocalSession) -> Result<Vec<ViewStatus>, Problem> {
        let session = self.session_over(session, [])?;
        let mut views = session.tools()?.views().await?;
        views.retain(|view| self.allows(&view.collection, Right::Read));
        for view in &mut views {
            if !self.reads_all_of(&view.collection) {
                view.rows_filled = None;
                view.misfits = MisfitCounts::default();
            }
        }
        Ok(views)
    }

    /// Returns whether the token may read all records of a collection, without a row filter.
    pub(crate) fn reads_all_of(&self, collection: &str) -> bool {
        let grant = self.grant(collection);
        grant.is_some_and(|grant| grant.rows.is_empty() && grant.rights.contains(&Right::Read))
    }

    /// Checks that the token has a right in a collection, and may read all records of the
    /// collection.
    ///
    /// # Errors
    /// The errors of [`session`](Self::session), and 403 for a token that may read only some of the
    /// records.
    pub(crate) fn check_reads_all_of(&self, collection: &str, right: Right) -> Result<(), Problem> {
        self.granted_right(collection, right)?;
        if self.reads_all_of(collection) {
            return Ok(());
        }
        if self.allows(collection, Right::Read) {
            return Err(Problem::forbidden_to_some(collection));
        }
        Err(Problem::forbidden(collection, Right::Read))
    }

    /// Returns the token's grant for a collection, if the grant contains the right.
    ///
    /// # Errors
    /// The errors of [`session`](Self::session).
    pub(crate) fn granted_right(&self, collection: &str, right: Right) -> Result<&Grant, Problem> {
        let grant = self.grant(collection);
        let grant = grant.filter(|grant| !grant.rights.is_empty());
        let grant = grant.ok_or_else(|| Problem::no_collection(collection))?;
        if self.is_read_only() && right.changes() {
            return Err(Problem::read_only());
        }
        if !grant.rights.contains(&right) {
            return Err(Problem::forbidden(collection, right));
        }
        Ok(grant)
    }
}
