//! The tables of views as the catalog has them: which there are, and what is to become of each.

use recto_model::Table;
use recto_model::schema::{Collection, Schema, View};
use recto_model::table::TableError;
use recto_views::ViewState;

use super::tables::FoundTables;

/// The number of the first view of a store.
const FIRST_NUMBER: u64 = 1;

/// The table of a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptView {
    /// The name of the collection.
    pub(crate) collection: String,
    /// The view as it was declared when the table was made.
    pub(crate) view: View,
    /// Part of the table's name. It never recurs in the store.
    pub(crate) number: u64,
    pub(crate) state: ViewState,
}

/// The tables of all views of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptViews {
    /// The number of the next table.
    next: u64,
    /// In the order they were made.
    pub(crate) tables: Vec<KeptView>,
}

impl Default for KeptViews {
    fn default() -> Self {
        Self {
            next: FIRST_NUMBER,
            tables: Vec::new(),
        }
    }
}

impl KeptView {
    /// The table's name.
    pub(crate) fn table_name(&self, collection: &Collection) -> String {
        collection.arranged(&self.view).table_name(self.number)
    }

    /// The table.
    ///
    /// # Errors
    /// A field that it is by cannot be in a key.
    pub(crate) fn table(&self, collection: &Collection) -> Result<Table, TableError> {
        let name = self.table_name(collection);
        Ok(collection.arranged(&self.view).table(&name)?.0)
    }

    /// Whether writes write it, whether it is read or not.
    pub(crate) fn is_written(&self) -> bool {
        self.state != ViewState::Dropping
    }

    /// Whether it is on its way to be read, or is read.
    pub(crate) fn stays(&self) -> bool {
        matches!(self.state, ViewState::Building | ViewState::Ready)
    }

    /// It is not to be read any more. What was never read need not be written for its readers.
    pub(crate) fn retire(&mut self) {
        self.state = match self.state {
            ViewState::Ready | ViewState::Retiring => ViewState::Retiring,
            ViewState::Building | ViewState::Dropping => ViewState::Dropping,
        };
    }

    fn is_of(&self, collection: &Collection, view: &View) -> bool {
        self.collection == collection.name && self.view.name == view.name
    }
}

impl KeptViews {
    /// A ready table for each view, which has the number that it had before if there was one of its name.
    pub(crate) fn of_all_ready(&self, schema: &Schema) -> Self {
        let mut views = self.clone();
        for one in &mut views.tables {
            one.state = ViewState::Dropping;
        }
        for collection in &schema.collections {
            for view in &collection.views {
                let mut those = views.tables.iter_mut();
                if let Some(one) = those.find(|one| one.is_of(collection, view)) {
                    one.state = ViewState::Ready;
                    one.view = view.clone();
                } else {
                    views.add_missing(collection, view, true);
                }
            }
        }
        views
    }

    /// Whether there are none.
    pub(crate) fn has_none(&self) -> bool {
        self.tables.is_empty()
    }

    /// The tables of a collection's views, whatever their states.
    pub(crate) fn of<'a>(&'a self, collection: &'a str) -> impl Iterator<Item = &'a KeptView> {
        self.tables.iter().filter(move |one| one.collection == collection)
    }

    /// The name of the view of this number, unless it goes, or another of its name follows it.
    pub(crate) fn told_name(&self, number: u64) -> Option<&str> {
        let kept = self.tables.iter().find(|one| one.number == number)?;
        let follows = |one: &&KeptView| {
            one.number > number && one.collection == kept.collection && one.view.name == kept.view.name
        };
        let is_told = kept.stays() && self.tables.iter().find(follows).is_none();
        is_told.then_some(&*kept.view.name)
    }

    /// The tables of a collection's views that are read, in the order that it declares them.
    pub(crate) fn ready<'a>(&'a self, collection: &'a Collection) -> impl Iterator<Item = &'a KeptView> {
        let ready = |view: &'a View| {
            let mut those = self.tables.iter();
            those.find(|one| one.is_of(collection, view) && one.state == ViewState::Ready)
        };
        collection.views.iter().filter_map(ready)
    }

    /// What they are to be for `schema`: tables for the views that have none of their declaration, and no longer
    /// those of what it does not declare. A view of another declaration is read until the one that follows it is ready.
    pub(crate) fn following(
        &self,
        schema: &Schema,
        found: &FoundTables,
        is_new: impl Fn(&str) -> bool,
    ) -> Self {
        let mut views = self.clone();
        let is_there = |one: &KeptView| schema.collection(&one.collection).is_some();
        views
            .tables
            .retain(|one| is_there(one) && !found.gone_views.contains(&one.number));
        for one in views.tables.iter_mut().filter(|one| one.stays()) {
            let collection = schema.collection(&one.collection);
            let declared = collection.and_then(|collection| collection.view(&one.view.name));
            let is_replaced = one.state == ViewState::Building && declared != Some(&one.view);
            if declared.is_none() || is_replaced {
                one.retire();
            }
        }
        for collection in &schema.collections {
            for view in &collection.views {
                views.add_missing(collection, view, is_new(&collection.name));
            }
        }
        views
    }

    fn add_missing(&mut self, collection: &Collection, view: &View, is_empty: bool) {
        let mut those = self.tables.iter();
        if those.any(|one| one.is_of(collection, view) && one.stays() && one.view == *view) {
            return;
        }
        self.tables.push(KeptView {
            collection: collection.name.clone(),
            view: view.clone(),
            number: self.next,
            state: if is_empty {
                ViewState::Ready
            } else {
                ViewState::Building
            },
        });
        self.next += 1;
    }

    /// As the catalog's text has them, a line each.
    pub(super) fn to_text(&self) -> String {
        let line = |one: &KeptView| {
            format!(
                "view {} {} {} {} {}\n",
                one.number,
                state_text(one.state),
                one.collection,
                one.view.name,
                one.view.definition()
            )
        };
        let lines: String = self.tables.iter().map(line).collect();
        format!("next {}\n{lines}", self.next)
    }

    /// What that text says; the views are of collections of `schema`.
    pub(super) fn from_text(text: &str, schema: &Schema) -> Result<Self, String> {
        let mut lines = text.lines();
        let next = lines
            .next()
            .and_then(|line| line.strip_prefix("next ")?.parse().ok());
        let next = next.ok_or("the number of the next view is missing")?;
        let read = |line: &str| read_line(line, schema).ok_or_else(|| format!("no view: {line}"));
        Ok(Self {
            next,
            tables: lines.map(read).collect::<Result<_, _>>()?,
        })
    }
}

fn read_line(line: &str, schema: &Schema) -> Option<KeptView> {
    let mut words = line.strip_prefix("view ")?.splitn(5, ' ');
    let mut word = || words.next();
    let (number, state, collection, name, definition) = (word()?, word()?, word()?, word()?, word()?);
    Some(KeptView {
        number: number.parse().ok()?,
        state: STATES.into_iter().find(|(_, text)| *text == state)?.0,
        view: schema.view_of(collection, name, definition)?,
        collection: collection.to_owned(),
    })
}

const STATES: [(ViewState, &str); 4] = [
    (ViewState::Building, "building"),
    (ViewState::Ready, "ready"),
    (ViewState::Retiring, "retiring"),
    (ViewState::Dropping, "dropping"),
];

/// A state as the catalog and people have it.
pub(crate) fn state_text(state: ViewState) -> &'static str {
    let found = STATES.into_iter().find(|(one, _)| *one == state);
    found.map_or("", |(_, text)| text)
}
