//! Queue that a page shows, and the user's rights for it.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use maud::Markup;
use recto::Session;
use recto::session::{QueueStatus, Queues};

use super::super::layout::{Layout, page};
use super::super::page_url::path_segment;
use super::BOARD;
use crate::access::{Access, Right};
use crate::app::App;
use crate::problem::Problem;

/// Queue that a page shows, with the user's rights and a session.
pub(super) struct QueueAccess {
    pub(super) name: String,
    pub(super) access: Access,
    session: Arc<dyn Session>,
}

impl QueueAccess {
    /// Returns the queue named `name`. Fails if the token does not have the right for the queue.
    pub(super) fn of(app: &App, access: Access, name: String, right: Right) -> Result<Self, Problem> {
        access.check_queue(&name, right)?;
        Ok(Self {
            session: Access::queue_session(app.session()),
            name,
            access,
        })
    }

    pub(super) fn queues(&self) -> Result<&dyn Queues, Problem> {
        Ok(self.session.queues()?)
    }

    pub(super) async fn status(&self) -> Result<QueueStatus, Problem> {
        Ok(self.queues()?.queue(&self.name).await?)
    }

    pub(super) fn may(&self, right: Right) -> bool {
        may(&self.access, &self.name, right)
    }

    /// Returns the address of an action on the queue, such as `send`.
    pub(super) fn action(&self, action: &str) -> String {
        format!("{}/{action}", href(&self.name))
    }

    /// Returns the address to return to after an action: the page of the queue, or the board if the
    /// token may not read the queue.
    pub(super) fn back(&self) -> String {
        if self.may(Right::Read) {
            href(&self.name)
        } else {
            BOARD.to_owned()
        }
    }

    /// Redirects after an action to the page of the queue, which shows the message `done`. If the
    /// token may not read the queue, redirects to the page of the action `otherwise`.
    pub(super) fn done(&self, done: &str, otherwise: &str) -> Response {
        let to = if self.may(Right::Read) {
            href(&self.name)
        } else {
            self.action(otherwise)
        };
        Redirect::to(&format!("{to}?done={done}")).into_response()
    }

    /// Returns the page of an action on the queue. `here` is its title.
    pub(super) fn page(&self, here: &str, problem: Option<&Problem>, content: &Markup) -> Response {
        let layout = Layout {
            title: here,
            trail: vec![
                ("Queues".to_owned(), Some(BOARD.to_owned())),
                (self.name.clone(), Some(self.back())),
                (here.to_owned(), None),
            ],
            fills_window: false,
            has_rows: false,
        };
        let status = problem.map_or(StatusCode::OK, |problem| problem.status);
        page(status, &layout, content)
    }
}

/// Returns whether the token has a right for a queue.
pub(super) fn may(access: &Access, queue: &str, right: Right) -> bool {
    access.of_queue(queue).contains(&right)
}

/// Returns the address of the page of a queue.
pub(super) fn href(name: &str) -> String {
    format!("{BOARD}/{}", path_segment(name))
}
