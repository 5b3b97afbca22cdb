//! Record that a page shows, and the page to which the user returns.

use std::sync::Arc;

use recto::schema::Collection;
use recto::session::{JsonRecord, Versioned};
use recto::{Error, ErrorKind, Session};

use super::page_url::{PageUrl, Parameters, first, parameters};
use super::table::key_of;
use crate::access::{Access, Right};
use crate::app::App;
use crate::problem::Problem;
use recto::problem::ProblemType;

/// Record that a page shows: its collection, its key, and the page to which the user returns.
pub(super) struct Subject {
    pub(super) session: Arc<dyn Session>,
    pub(super) collection: Arc<Collection>,
    pub(super) key: Vec<String>,
    pub(super) back: PageUrl,
    pub(super) parameters: Parameters,
}

impl Subject {
    /// Reads the collection and the key of a record from an address. Fails if the token does not
    /// have the right in the collection.
    pub(super) async fn of(
        app: &App,
        access: &Access,
        name: &str,
        query: Option<String>,
        right: Right,
    ) -> Result<Self, Problem> {
        let session = access.session(app.session(), name, right)?;
        let schema = session.schema().await?;
        let collection = schema
            .collection(name)
            .ok_or_else(|| Problem::no_collection(name))?;
        if let Some(table) = collection.attached.as_ref().filter(|_| right != Right::Read) {
            let message = format!(
                "collection {name} is read-only: it is attached to table {table}, to which Recto does not \
                 write"
            );
            return Err(Error::new(ErrorKind::NotOffered, message)
                .with_hint("write to it with CQL in its own cluster")
                .into());
        }
        let parameters = parameters(query.unwrap_or_default().as_bytes());
        let back = first(&parameters, "back").unwrap_or_default();
        Ok(Self {
            session,
            collection: Arc::clone(collection),
            key: all(&parameters, "key"),
            back: PageUrl::parse(name, &super::page_url::parameters(back.as_bytes()))?,
            parameters,
        })
    }

    /// Reads the record from the store.
    ///
    /// # Errors
    /// There is no record with the key, or the key does not fit the key fields of the collection.
    pub(super) async fn record(&self) -> Result<JsonRecord, Problem> {
        Ok(self.versioned().await?.record)
    }

    /// Reads the record from the store, with its version if records have versions.
    ///
    /// # Errors
    /// The errors of [`record`](Self::record).
    pub(super) async fn versioned(&self) -> Result<Versioned<JsonRecord>, Problem> {
        let name = &self.collection.name;
        match self.found().await? {
            Some(found) => Ok(found),
            None => Err(Problem::new(
                ProblemType::NotFound,
                format!("there is no record ({}) in {name}", self.key.join(", ")),
            )
            .with_hint("go back to the list: the record may have been deleted")),
        }
    }

    /// Reads the record from the store; `None` if it does not exist.
    ///
    /// # Errors
    /// The key does not fit the key fields of the collection.
    pub(super) async fn found(&self) -> Result<Option<Versioned<JsonRecord>>, Problem> {
        Ok(self.session.get(&self.collection.name, &self.key).await?)
    }

    /// Returns the address of an action on a record. The action returns to the page to which this
    /// page returns.
    pub(super) fn href(&self, action: &str, key: &[String]) -> String {
        self.back.record_href(action, key)
    }

    /// Returns the address of the page that shows a record.
    pub(super) fn record_href(&self, record: &JsonRecord) -> String {
        self.href("record", &key_of(&self.collection, record))
    }

    /// Returns the breadcrumbs of a page about the record. `here` is the name of the page.
    pub(super) fn trail(&self, here: &str) -> Vec<(String, Option<String>)> {
        vec![
            (self.collection.name.clone(), Some(self.back.href())),
            (here.to_owned(), None),
        ]
    }
}

fn all(parameters: &Parameters, name: &str) -> Vec<String> {
    let values = parameters.iter().filter(|(held, _)| held == name);
    values.map(|(_, value)| value.clone()).collect()
}
