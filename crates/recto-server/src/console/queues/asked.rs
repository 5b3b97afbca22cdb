//! The queue that a page is about, and who asks.

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

/// A queue, and what who asks may do with it.
pub(super) struct Asked {
    pub(super) name: String,
    pub(super) access: Access,
    session: Arc<dyn Session>,
}

impl Asked {
    /// Returns the queue of this name, for a token that has this right.
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

    /// The address of something about the queue.
    pub(super) fn action(&self, action: &str) -> String {
        format!("{}/{action}", href(&self.name))
    }

    /// The way back from a page about the queue; to the board, for who may not look at it.
    pub(super) fn back(&self) -> String {
        if self.may(Right::Read) {
            href(&self.name)
        } else {
            BOARD.to_owned()
        }
    }

    /// Leads to the queue's page, which says what was done; back to `otherwise`, for who may not look at it.
    pub(super) fn done(&self, done: &str, otherwise: &str) -> Response {
        let to = if self.may(Right::Read) {
            href(&self.name)
        } else {
            self.action(otherwise)
        };
        Redirect::to(&format!("{to}?done={done}")).into_response()
    }

    /// A page about something that is done with the queue.
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

/// Whether who asks may do this with a queue.
pub(super) fn may(access: &Access, queue: &str, right: Right) -> bool {
    access.of_queue(queue).contains(&right)
}

/// The address of a queue.
pub(super) fn href(name: &str) -> String {
    format!("{BOARD}/{}", path_segment(name))
}
