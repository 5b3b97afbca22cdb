//! Asking for pages without async.

use std::time::Duration;

use futures::stream::StreamExt;
use recto_model::Direction;
use recto_model::record::Record;
use std::future::IntoFuture as _;

use super::runtime::{iterate, wait};
use crate::error::Result;
use crate::filter::{Filter, Literal};
use crate::page::Page;

/// A query being built, and its pages: [`recto::PageQuery`](crate::PageQuery) without async.
pub struct PageQuery<T> {
    inner: crate::query::PageQuery<T>,
}

impl<T> Clone for PageQuery<T> {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone())
    }
}

impl<T> std::fmt::Debug for PageQuery<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}

/// The calls that say what is asked, as they are with async.
macro_rules! as_with_async {
    ($($name:ident($($argument:ident: $ty:ty),*);)+) => {
        $(
            #[doc = concat!("See [`crate::PageQuery::", stringify!($name), "`].")]
            #[must_use]
            pub fn $name(self, $($argument: $ty),*) -> Self {
                Self::new(self.inner.$name($($argument),*))
            }
        )+
    };
}

impl<T> PageQuery<T> {
    pub(super) fn new(inner: crate::query::PageQuery<T>) -> Self {
        Self { inner }
    }

    as_with_async! {
        filter(text: impl Into<String>);
        matching(filter: Filter);
        order_by(text: impl Into<String>);
        then_by(field: impl Into<String>, direction: Direction);
        allow_residual();
        page_size(rows: u32);
        first(rows: u32);
        last(rows: u32);
        after(cursor: impl Into<String>);
        before(cursor: impl Into<String>);
        page_token(token: impl Into<String>);
        around(cursor: impl Into<String>);
        from_json(values: impl Into<String>);
        both_edges();
        scan_budget(rows: u64);
        byte_budget(bytes: u64);
        timeout(time: Duration);
    }

    /// See [`crate::PageQuery::from`].
    #[must_use]
    pub fn from<L: Into<Literal>>(self, values: impl IntoIterator<Item = L>) -> Self {
        Self::new(self.inner.from(values))
    }
}

impl<T: Record> PageQuery<T> {
    /// See [`crate::PageQuery::each_result`].
    #[must_use]
    pub fn each_result(self) -> PageQuery<Result<T>> {
        PageQuery::new(self.inner.each_result())
    }
}

impl<T: Send + 'static> PageQuery<T> {
    /// The page.
    pub fn fetch(self) -> Result<Page<T>> {
        wait(self.inner.into_future())?
    }

    /// All rows of the query from its start on, page after page; see [`crate::PageQuery::stream`].
    pub fn rows(self) -> Result<impl Iterator<Item = Result<T>> + use<T>> {
        iterate(self.inner.stream().boxed())
    }
}
