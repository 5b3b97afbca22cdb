//! Cache of API descriptions, because creating one takes as long as reading a hundred pages.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use recto::Session as _;
use recto::schema::Schema;

use super::{docs, document};
use crate::api::{Caller, strong_tag, tagged};
use crate::problem::Problem;

/// Maximum number of API descriptions in the cache. Tokens with equal rights share one. Beyond the
/// maximum, the cache is cleared.
const MAX_KEPT: usize = 64;

/// Cache of API descriptions of the current schema.
#[derive(Debug, Default)]
pub(super) struct Descriptions(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    schema: Option<Arc<Schema>>,
    /// API descriptions by the rights of the token: for the store, for any queue, for every queue,
    /// and in each collection (in schema order).
    by_rights: HashMap<Vec<u16>, Arc<Description>>,
}

/// API description for one set of rights, as JSON and as an HTML page.
#[derive(Debug)]
pub(super) struct Description {
    pub(super) json: Representation,
    pub(super) html: Representation,
}

/// Text of a reply, with its entity tag.
#[derive(Debug)]
pub(super) struct Representation {
    text: Bytes,
    tag: String,
}

impl Representation {
    fn new(text: String) -> Self {
        Self {
            tag: strong_tag(text.as_bytes()),
            text: text.into(),
        }
    }

    pub(super) fn answer(&self, asked: &HeaderMap, content_type: HeaderValue) -> Response {
        tagged(asked, &self.tag, content_type, self.text.clone())
    }
}

impl Descriptions {
    /// Returns the API description for a caller, from the cache or newly created from the current
    /// schema.
    pub(super) async fn of(&self, caller: &Caller) -> Result<Arc<Description>, Problem> {
        let schema = caller.app_session().schema().await?;
        let collections = schema.collections.iter();
        let of_collections = collections.map(|one| caller.access.rights(&one.name));
        let [some_queue, every_queue] = caller.access.queue_rights();
        let of_others = [caller.access.store_rights(), some_queue, every_queue];
        let rights: Vec<u16> = of_others.into_iter().chain(of_collections).collect();
        if let Some(found) = self.find(&schema, &rights) {
            return Ok(found);
        }
        let document = document(&caller.schema().await?, &caller.access);
        let made = Arc::new(Description {
            html: Representation::new(docs::page(&document).into_string()),
            json: Representation::new(document.to_string()),
        });
        self.keep(&schema, rights, &made);
        Ok(made)
    }

    fn find(&self, schema: &Arc<Schema>, rights: &[u16]) -> Option<Arc<Description>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_current = kept.schema.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, schema));
        kept.by_rights.get(rights).filter(|_| is_current).cloned()
    }

    fn keep(&self, schema: &Arc<Schema>, rights: Vec<u16>, made: &Arc<Description>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_current = kept.schema.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, schema));
        if !is_current || kept.by_rights.len() >= MAX_KEPT {
            kept.by_rights.clear();
            kept.schema = Some(Arc::clone(schema));
        }
        kept.by_rights.insert(rights, Arc::clone(made));
    }
}
