//! Tables of views and of unique constraints, with their states, as the catalog records them.

use recto_model::collation::{COLLATION_NUMBER, IS_BUILT_IN};
use recto_model::schema::{Collection, Schema, SortOrder, View};
use recto_model::table::TableError;
use recto_model::{Table, Type};
use recto_protocol::views::{ClaimsTable, ViewNumber, ViewState};

use super::tables::FoundTables;
use crate::session::MisfitCounts;

/// Id of the first view or unique constraint of a store.
const FIRST_NUMBER: u64 = 1;

/// Table of a view and its state, as the catalog records them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptView {
    pub(crate) collection: String,
    /// View as it was declared when the table was created.
    pub(crate) view: View,
    /// Id of the view, which is part of the table's name. The store never uses an id again.
    pub(crate) number: u64,
    pub(crate) state: ViewState,
    /// Version of the collation data that created the view's sort keys (bytes that order text by a
    /// collation). `None` if the view has no sort keys.
    pub(crate) collation: Option<u32>,
    /// Number of misfits: records that the view should contain but cannot store. The actual number
    /// may be smaller.
    pub(crate) misfits: MisfitCounts,
    /// True if the view's only partition field may have an empty value. Tables of earlier releases do not
    /// allow an empty value.
    pub(crate) allows_empty: bool,
}

/// Table of a unique constraint, as the catalog records it. All writes obey the constraint from the
/// time it is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptUnique {
    pub(crate) collection: String,
    /// Fields whose values no two records share.
    pub(crate) fields: Vec<String>,
    /// Id of the constraint, which is part of the table's name. The store never uses an id again, not even
    /// for a view.
    pub(crate) number: u64,
    /// True if records that are older than the constraint may still lack their claims (the rows
    /// that reserve the values).
    pub(crate) is_building: bool,
    /// Number of records whose values the constraint cannot store. The actual number may be smaller.
    pub(crate) misfits: MisfitCounts,
    /// True if the constraint's only field may have an empty value. Tables of earlier releases do not allow
    /// an empty value.
    pub(crate) allows_empty: bool,
}

/// Tables of all views and unique constraints of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptViews {
    /// Id of the next view or unique constraint.
    next: u64,
    /// Tables of views in the order of their creation.
    pub(crate) tables: Vec<KeptView>,
    /// Tables of unique constraints in the order of their creation.
    pub(crate) unique: Vec<KeptUnique>,
}

impl Default for KeptViews {
    fn default() -> Self {
        Self {
            next: FIRST_NUMBER,
            tables: Vec::new(),
            unique: Vec::new(),
        }
    }
}

impl KeptView {
    /// Returns the sort order of the view's table, from which names and columns of the table follow.
    pub(crate) fn arranged<'a>(&'a self, collection: &'a Collection) -> SortOrder<'a> {
        let arranged = collection.arranged(&self.view);
        arranged.allow_empty_partition(self.allows_empty)
    }

    pub(crate) fn table_name(&self, collection: &Collection) -> String {
        self.arranged(collection).table_name(self.number)
    }

    /// Returns the definition of the view's table.
    ///
    /// # Errors
    /// A field of the view's key has a type that cannot be in a key.
    pub(crate) fn table(&self, collection: &Collection) -> Result<Table, TableError> {
        let arranged = self.arranged(collection);
        Ok(arranged.table(&arranged.table_name(self.number))?.0)
    }

    /// Returns whether writes must maintain the view. Writes also maintain views that are not ready yet, and
    /// removed views that other processes may still read.
    pub(crate) fn is_written(&self) -> bool {
        self.state != ViewState::Dropping
    }

    /// Returns whether this program creates the view's sort keys (bytes that order text by a collation). A
    /// view with other sort keys is neither read nor written.
    pub(crate) fn is_current(&self) -> bool {
        let makes = |number| IS_BUILT_IN && number == COLLATION_NUMBER;
        self.collation.is_none_or(makes)
    }

    /// Returns the state of the view as text for users.
    pub(crate) fn told_state(&self) -> &'static str {
        if self.stays() && !self.is_current() {
            return OUTDATED;
        }
        state_text(self.state)
    }

    /// Returns whether the view is ready, or is being built until it is ready. Returns false for views that
    /// are being removed.
    pub(crate) fn stays(&self) -> bool {
        matches!(self.state, ViewState::Building | ViewState::Ready)
    }

    /// Starts the removal of the view. Writers continue to maintain a view that was ready, because
    /// processes with an older schema may still read it. A view that was never ready has no
    /// readers, so writers ignore it.
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

impl KeptUnique {
    fn state(&self) -> ViewState {
        if self.is_building {
            ViewState::Building
        } else {
            ViewState::Ready
        }
    }

    pub(crate) fn table_name(&self) -> String {
        ClaimsTable::table_name(ViewNumber(self.number), &self.collection)
    }

    /// Returns the definition of the table that stores the claims (reservations of values).
    ///
    /// # Errors
    /// A field has a type that cannot be in a key.
    pub(crate) fn table(&self, collection: &Collection) -> Result<Table, TableError> {
        Ok(Table::clone(self.claims_table(collection)?.table()))
    }

    /// Returns the table of claims (reservations of values) together with the fields of the constraint.
    ///
    /// # Errors
    /// A field has a type that cannot be in a key.
    pub(crate) fn claims_table(&self, collection: &Collection) -> Result<ClaimsTable, TableError> {
        let number = ViewNumber(self.number);
        ClaimsTable::new(number, collection, &self.fields, self.allows_empty)
    }
}

impl KeptViews {
    /// Returns views for `schema` that are all ready. A view keeps its id if the store had a view with its
    /// name.
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
                    one.collation = collation_number(view);
                } else {
                    views.add_missing(collection, view, true);
                }
            }
            views.add_unique(collection, true);
        }
        views
    }

    /// Returns the recorded counts of misfits (records that the table cannot store) of the view or unique
    /// constraint with the id `number`.
    pub(crate) fn misfits_of(&self, number: u64) -> MisfitCounts {
        let view = self.tables.iter().find(|one| one.number == number);
        let unique = self.unique.iter().find(|one| one.number == number);
        let of_view = view.map(|one| one.misfits);
        of_view.or(unique.map(|one| one.misfits)).unwrap_or_default()
    }

    /// Sets the counts of misfits (records that the table cannot store) of the view or unique constraint with
    /// the id `number`. Returns whether the counts changed.
    pub(crate) fn set_misfits(&mut self, number: u64, misfits: MisfitCounts) -> bool {
        let view = self.tables.iter_mut().find(|one| one.number == number);
        let unique = self.unique.iter_mut().find(|one| one.number == number);
        let of_view = view.map(|one| &mut one.misfits);
        let Some(recorded) = of_view.or(unique.map(|one| &mut one.misfits)) else {
            return false;
        };
        std::mem::replace(recorded, misfits) != misfits
    }

    /// Returns whether any view or unique constraint lacks records that it cannot store.
    pub(crate) fn have_misfits(&self) -> bool {
        let of_views = self.tables.iter().map(|one| one.misfits);
        let mut all = of_views.chain(self.unique.iter().map(|one| one.misfits));
        all.any(|misfits| misfits.total() > 0)
    }

    /// Returns whether the table of any view or unique constraint allows an empty partition.
    pub(crate) fn allow_empty(&self) -> bool {
        let of_views = self.tables.iter().map(|one| one.allows_empty);
        let mut all = of_views.chain(self.unique.iter().map(|one| one.allows_empty));
        all.any(|allows_empty| allows_empty)
    }

    /// Returns whether there are no tables of views in any state.
    pub(crate) fn has_none(&self) -> bool {
        self.tables.is_empty()
    }

    /// Returns whether a unique constraint has the id `number`.
    pub(crate) fn has_unique(&self, number: u64) -> bool {
        self.unique.iter().any(|one| one.number == number)
    }

    /// Returns the tables of a collection's unique constraints.
    pub(crate) fn unique_of<'a>(&'a self, collection: &'a str) -> impl Iterator<Item = &'a KeptUnique> {
        self.unique.iter().filter(move |one| one.collection == collection)
    }

    /// Returns the tables of a collection's views in all states.
    pub(crate) fn of<'a>(&'a self, collection: &'a str) -> impl Iterator<Item = &'a KeptView> {
        self.tables.iter().filter(move |one| one.collection == collection)
    }

    /// Returns the name of the view with the id `number`. Returns `None` if the view is being removed, or a
    /// later view with the same name replaces it.
    pub(crate) fn told_name(&self, number: u64) -> Option<&str> {
        let kept = self.tables.iter().find(|one| one.number == number)?;
        let follows = |one: &&KeptView| {
            one.number > number && one.collection == kept.collection && one.view.name == kept.view.name
        };
        let is_told = kept.stays() && self.tables.iter().find(follows).is_none();
        is_told.then_some(&*kept.view.name)
    }

    /// Returns the tables of a collection's views that can be read, in the order of the declarations.
    pub(crate) fn ready<'a>(&'a self, collection: &'a Collection) -> impl Iterator<Item = &'a KeptView> {
        let ready = |view: &'a View| {
            let mut those = self.tables.iter();
            those.find(|one| one.is_of(collection, view) && one.state == ViewState::Ready && one.is_current())
        };
        collection.views.iter().filter_map(ready)
    }

    /// Returns a view that writes of a collection must maintain but cannot, because this program does not
    /// create the view's sort keys (bytes that order text by a collation). Returns `None` if there is no such
    /// view.
    pub(crate) fn outdated<'a>(&'a self, collection: &'a str) -> Option<&'a KeptView> {
        self.of(collection)
            .find(|one| one.is_written() && !one.is_current())
    }

    /// Returns the tables for `schema`. Adds a table for each view whose declaration has none, and retires
    /// the tables of views that `schema` does not declare. If the declaration of a view changed, queries read
    /// its earlier table until the new table is ready.
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
        // This program cannot create the sort keys of a view that is not current, so it
        // drops that view's table.
        for one in views.tables.iter_mut().filter(|one| !one.is_current()) {
            one.state = ViewState::Dropping;
        }
        // Recto neither fills nor drops the tables of an attached collection. So simply forget views that the
        // collection no longer declares.
        let is_as_declared = |one: &KeptView| {
            let collection = schema
                .collection(&one.collection)
                .filter(|one| one.attached.is_some());
            collection.is_none_or(|collection| collection.view(&one.view.name) == Some(&one.view))
        };
        views.tables.retain(is_as_declared);
        let is_declared = |one: &KeptUnique| {
            let collection = schema.collection(&one.collection);
            collection.is_some_and(|collection| collection.unique.contains(&one.fields))
        };
        views
            .unique
            .retain(|one| is_declared(one) && !found.gone_views.contains(&one.number));
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
                let is_there = collection.attached.is_some();
                views.add_missing(collection, view, is_there || is_new(&collection.name));
            }
            views.add_unique(collection, is_new(&collection.name));
        }
        views
    }

    fn add_missing(&mut self, collection: &Collection, view: &View, is_empty: bool) {
        let mut those = self.tables.iter();
        if those
            .any(|one| one.is_of(collection, view) && one.stays() && one.is_current() && one.view == *view)
        {
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
            collation: collation_number(view),
            misfits: MisfitCounts::default(),
            allows_empty: can_be_empty(collection, &view.partition),
        });
        self.next += 1;
    }

    fn add_unique(&mut self, collection: &Collection, is_empty: bool) {
        for fields in &collection.unique {
            let is_there = self.unique_of(&collection.name).any(|one| one.fields == *fields);
            if is_there {
                continue;
            }
            self.unique.push(KeptUnique {
                collection: collection.name.clone(),
                fields: fields.clone(),
                number: self.next,
                is_building: !is_empty,
                misfits: MisfitCounts::default(),
                allows_empty: can_be_empty(collection, fields),
            });
            self.next += 1;
        }
    }

    /// Encodes the tables as text of the catalog, one line for each table.
    pub(super) fn to_text(&self) -> String {
        let line = |one: &KeptView| {
            let collation = one.collation.map(|number| format!("collation {number} "));
            format!(
                "{}{}{}view {} {} {} {} {}\n",
                misfits_text(one.misfits),
                form_text(one.allows_empty),
                collation.unwrap_or_default(),
                one.number,
                state_text(one.state),
                one.collection,
                one.view.name,
                one.view.definition()
            )
        };
        let lines: String = self.tables.iter().map(line).collect();
        let unique = self.unique.iter();
        let unique = unique.map(|one| {
            let state = state_text(one.state());
            let fields = one.fields.join(",");
            let (misfits, form) = (misfits_text(one.misfits), form_text(one.allows_empty));
            format!(
                "{misfits}{form}unique {} {state} {} {fields}\n",
                one.number, one.collection
            )
        });
        let unique: String = unique.collect();
        format!("next {}\n{lines}{unique}", self.next)
    }

    /// Parses the text that [`to_text`](Self::to_text) creates. The views belong to collections of `schema`.
    pub(super) fn from_text(text: &str, schema: &Schema) -> Result<Self, String> {
        let mut lines = text.lines();
        let next = lines
            .next()
            .and_then(|line| line.strip_prefix("next ")?.parse().ok());
        let next = next.ok_or("the number of the next view is missing")?;
        let is_unique = |line: &&str| read_beginning(line).is_some_and(|(.., line)| line.starts_with(UNIQUE));
        let (unique, tables): (Vec<&str>, Vec<&str>) = lines.partition(is_unique);
        let read =
            |line: &str| read_line(line, schema).ok_or_else(|| format!("this line is not a view: {line}"));
        let read_unique = |line: &str| {
            read_unique(line, schema).ok_or_else(|| format!("this line is not a unique constraint: {line}"))
        };
        Ok(Self {
            next,
            tables: tables.into_iter().map(read).collect::<Result<_, _>>()?,
            unique: unique.into_iter().map(read_unique).collect::<Result<_, _>>()?,
        })
    }
}

/// Returns the version of the collation data with which this program creates a view's sort keys (bytes that
/// order text by a collation). Returns `None` if the view has no sort keys.
fn collation_number(view: &View) -> Option<u32> {
    (!view.collate.is_empty()).then_some(COLLATION_NUMBER)
}

/// Beginning of the part of a catalog line that describes a unique constraint.
const UNIQUE: &str = "unique ";

/// Beginning of a catalog line whose table lacks records that it cannot store. The counts of these records
/// follow.
const MISFITS: &str = "misfits ";

fn misfits_text(misfits: MisfitCounts) -> String {
    if misfits.total() == 0 {
        return String::new();
    }
    format!("{MISFITS}{} {} ", misfits.empty, misfits.too_large)
}

/// Parses the counts of misfits (records that the table cannot store) at the beginning of a catalog line.
/// Also returns the rest of the line. Returns `None` if the line is invalid.
fn read_misfits(line: &str) -> Option<(MisfitCounts, &str)> {
    let Some(line) = line.strip_prefix(MISFITS) else {
        return Some((MisfitCounts::default(), line));
    };
    let mut words = line.splitn(3, ' ');
    let mut number = || words.next()?.parse().ok();
    let (empty, too_large) = (number()?, number()?);
    let misfits = MisfitCounts { empty, too_large };
    Some((misfits, words.next()?))
}

/// Returns whether a new table with the partition fields `partition` allows an empty partition value. Always
/// returns false for an attached table, which belongs to another program.
fn can_be_empty(collection: &Collection, partition: &[String]) -> bool {
    let [field] = partition else {
        return false;
    };
    let field = collection.field(field).map(|(_, field)| &field.ty);
    collection.attached.is_none() && matches!(field, Some(Type::Text | Type::Ascii | Type::Blob))
}

/// Mark in a catalog line: the only partition column of the table may be empty.
const ALLOWS_EMPTY: &str = "form 2 ";

fn form_text(allows_empty: bool) -> &'static str {
    if allows_empty { ALLOWS_EMPTY } else { "" }
}

/// Parses the beginning of a catalog line. Returns the counts of misfits, whether the table allows an empty
/// partition, and the rest of the line.
fn read_beginning(line: &str) -> Option<(MisfitCounts, bool, &str)> {
    let (misfits, line) = read_misfits(line)?;
    let rest = line.strip_prefix(ALLOWS_EMPTY);
    Some((misfits, rest.is_some(), rest.unwrap_or(line)))
}

fn read_unique(line: &str, schema: &Schema) -> Option<KeptUnique> {
    let (misfits, allows_empty, line) = read_beginning(line)?;
    let mut words = line.strip_prefix(UNIQUE)?.splitn(4, ' ');
    let mut word = || words.next();
    let (number, state, collection, fields) = (word()?, word()?, word()?, word()?);
    let definition = schema.collection(collection)?;
    let fields: Vec<String> = fields.split(',').map(str::to_owned).collect();
    let is_building = state == state_text(ViewState::Building);
    let is_known = is_building || state == state_text(ViewState::Ready);
    let has_all = fields.iter().all(|name| definition.field(name).is_some());
    let number = number.parse().ok()?;
    (is_known && has_all).then(|| KeptUnique {
        collection: collection.to_owned(),
        fields,
        number,
        is_building,
        misfits,
        allows_empty,
    })
}

fn read_line(line: &str, schema: &Schema) -> Option<KeptView> {
    let (misfits, allows_empty, line) = read_beginning(line)?;
    let (collation, line) = match line.strip_prefix("collation ") {
        None => (None, line),
        Some(rest) => {
            let (number, line) = rest.split_once(' ')?;
            (Some(number.parse().ok()?), line)
        }
    };
    let mut words = line.strip_prefix("view ")?.splitn(5, ' ');
    let mut word = || words.next();
    let (number, state, collection, name, definition) = (word()?, word()?, word()?, word()?, word()?);
    Some(KeptView {
        number: number.parse().ok()?,
        state: STATES.into_iter().find(|(_, text)| *text == state)?.0,
        view: schema.view_of(collection, name, definition)?,
        collection: collection.to_owned(),
        collation,
        misfits,
        allows_empty,
    })
    .filter(|one| one.collation.is_some() != one.view.collate.is_empty())
}

const STATES: [(ViewState, &str); 4] = [
    (ViewState::Building, "building"),
    (ViewState::Ready, "ready"),
    (ViewState::Retiring, "retiring"),
    (ViewState::Dropping, "dropping"),
];

/// Text for users: the state of a view whose sort keys (bytes that order text by a collation) this program
/// does not create.
const OUTDATED: &str = "outdated";

/// Returns the text of a state in the catalog and for users.
fn state_text(state: ViewState) -> &'static str {
    let found = STATES.into_iter().find(|(one, _)| *one == state);
    found.map_or("", |(_, text)| text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const PEOPLE: &str = r#"
[collection.people]
fields = { id = "int", team = "text", name = "text" }
key = ["id"]

[collection.people.view.by_name]
partition = ["team"]
order = ["name"]
collate = "de"
"#;

    const RECORDED: &str = "next 2\nform 2 collation 1 view 1 ready people by_name { partition = [\"team\"], order = [\"name\"], \
                            collate = { name = \"de\" } }\n";

    #[test]
    fn views_are_recorded_with_the_number_of_their_sort_keys() {
        let schema = Schema::parse(PEOPLE).unwrap();
        let made = KeptViews::default().following(&schema, &FoundTables::default(), |_| true);
        assert_eq!(made.to_text(), RECORDED);
        assert_eq!(KeptViews::from_text(RECORDED, &schema).unwrap(), made);
        // A view with sort keys needs a valid collation number, and a view without sort
        // keys must have none.
        for text in [
            RECORDED.replace("collation 1 ", ""),
            RECORDED.replace("collation 1 ", "collation x "),
            RECORDED.replace(", collate = { name = \"de\" }", ""),
        ] {
            assert!(KeptViews::from_text(&text, &schema).is_err(), "{text}");
        }
    }

    #[test]
    fn a_table_keeps_its_form() {
        let schema = PEOPLE.replace("key = [\"id\"]", "key = [\"id\"]\nunique = [\"name\"]");
        let schema = Schema::parse(&schema).unwrap();
        let people = &schema.collections[0];
        let made = KeptViews::default().following(&schema, &FoundTables::default(), |_| true);
        let allow = |views: &KeptViews| {
            let (view, unique) = (&views.tables[0], &views.unique[0]);
            [
                view.table(people).unwrap().allows_empty_partition(),
                unique.table(people).unwrap().allows_empty_partition(),
            ]
        };
        assert_eq!(allow(&made), [true; 2]);
        let earlier = made.to_text().replace("form 2 ", "");
        let earlier = KeptViews::from_text(&earlier, &schema).unwrap();
        assert!(!earlier.allow_empty());
        let next = earlier.following(&schema, &FoundTables::default(), |_| false);
        assert_eq!((allow(&next), next), ([false; 2], earlier));
    }

    #[test]
    fn misfits_are_recorded_with_their_table() {
        let schema = PEOPLE.replace("key = [\"id\"]", "key = [\"id\"]\nunique = [\"name\"]");
        let schema = Schema::parse(&schema).unwrap();
        let mut made = KeptViews::default().following(&schema, &FoundTables::default(), |_| true);
        assert!(!made.have_misfits());
        let misfits = MisfitCounts {
            empty: 2,
            too_large: 1_000,
        };
        assert!(made.set_misfits(1, misfits) && made.set_misfits(2, misfits));
        assert!(!made.set_misfits(1, misfits) && !made.set_misfits(3, misfits));
        let text = made.to_text();
        for line in [
            "\nmisfits 2 1000 form 2 collation 1 view 1 ",
            "\nmisfits 2 1000 form 2 unique 2 ready people name\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert_eq!(KeptViews::from_text(&text, &schema).unwrap(), made);
        assert_eq!((made.misfits_of(2), made.have_misfits()), (misfits, true));
        for wrong in ["misfits 2 ", "misfits 2 x ", "misfits -1 0 ", "misfits 1  "] {
            let text = text.replace("misfits 2 1000 ", wrong);
            assert!(KeptViews::from_text(&text, &schema).is_err(), "{text}");
        }
    }

    #[test]
    fn ignores_and_rebuilds_tables_with_other_collations() {
        let schema = Schema::parse(PEOPLE).unwrap();
        let people = &schema.collections[0];
        for number in [0, 2, 7] {
            let other = RECORDED.replace("collation 1", &format!("collation {number}"));
            let other = KeptViews::from_text(&other, &schema).unwrap();
            assert_eq!(other.ready(people).count(), 0);
            assert!(other.outdated("people").is_some());
            assert_eq!(other.tables[0].told_state(), "outdated");
            let next = other.following(&schema, &FoundTables::default(), |_| false);
            let states: Vec<_> = next.tables.iter().map(|one| (one.number, one.state)).collect();
            assert_eq!(states, [(1, ViewState::Dropping), (2, ViewState::Building)]);
            assert!(next.outdated("people").is_none());
        }
    }
}
