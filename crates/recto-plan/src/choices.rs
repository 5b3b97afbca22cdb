//! Possible additions to a query, for user interfaces. For each field: the conditions and sorts
//! that a view would still serve if a user added them. Also the partition fields on which the query
//! lacks a condition.
//!
//! A view can serve only fields in its key. The module therefore calls the planner three times for
//! each such field. It does not call the planner for other fields.

use std::sync::Arc;

use recto_model::schema::Collection;
use recto_model::table::Direction;

use crate::planner::{self, Serves, Wishes};
use crate::query::{Constraint, Query, RangeEnd, no_prefix};
use crate::sort_order::SortOrder;

/// Conditions and sorts that a user could add to a query, and the partition fields on which the
/// query lacks a condition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choices {
    /// Possible additions for each field, in the order of the collection's fields.
    pub fields: Vec<FieldChoices>,
    /// Fields that the query must fix by `=` before any view can serve it: the partition fields of the first
    /// view that are not fixed yet.
    pub missing_partition_fields: Vec<String>,
}

/// Conditions and sort of one field that a user could add to a query. The conditions on other
/// fields stay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldChoices {
    /// Name of the field.
    pub name: String,
    /// True if a view would serve an equality of the field (`=`), and an OR of equalities of the
    /// field.
    pub equality: bool,
    /// True if a view would serve `<`, `<=`, `>` and `>=` on the field.
    pub range: bool,
    /// True if a view would serve `startsWith` on the field: if it serves ranges of the field, and
    /// the field is text without a collation.
    pub prefix: bool,
    /// Whether the rows can be sorted by the field.
    pub sort: SortChoice,
}

/// Whether a view can sort the rows of a query by a field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SortChoice {
    /// A view would serve the sort.
    Served,
    /// The sort is useless: all rows have one value of the field, or the field's type has no order.
    #[default]
    Pointless,
    /// No view would serve the sort.
    Unserved,
}

/// Returns the possible additions to `query`. `rows` contains the conditions of `query` that cannot
/// be removed, such as a row filter. A new condition on a field replaces the conditions of `query`
/// on that field.
pub fn choices(
    collection: &Collection,
    sort_orders: &[Arc<SortOrder>],
    query: &Query,
    rows: &Query,
    wishes: &Wishes<'_>,
) -> Choices {
    choices_by(
        collection,
        sort_orders,
        query,
        rows,
        |sort_order, query| planner::serves(collection, sort_order, query, wishes),
        |query| planner::serve_together(collection, sort_orders, query, wishes),
    )
}

fn choices_by(
    collection: &Collection,
    sort_orders: &[Arc<SortOrder>],
    query: &Query,
    rows: &Query,
    mut serves: impl FnMut(&SortOrder, &Query) -> Option<Serves>,
    together: impl Fn(&Query) -> Option<Serves>,
) -> Choices {
    let mut taken = |query: &Query| -> Option<Serves> {
        let mut serving = sort_orders.iter().filter_map(|one| serves(one, query));
        let is_sorted = query.sorts().next().is_some();
        let alone = if is_sorted {
            serving.min_by_key(|one| !one.filter_scan.is_empty())
        } else {
            serving.next()
        };
        match alone {
            Some(alone) if alone.filter_scan.is_empty() => Some(alone),
            // Without a sort, the first view that serves the query determines the order of the
            // result. An intersection of views may therefore replace that view only if it has the
            // same order.
            Some(alone) => {
                let several = together(query).filter(|several| is_sorted || several.order == alone.order);
                several.or(Some(alone))
            }
            None => together(query),
        }
    };
    let is_in_a_key = |field: usize| {
        let is_in = |one: &Arc<SortOrder>| one.sorting_column(field).is_some();
        sort_orders.iter().any(is_in)
    };
    let fields = collection.fields.iter().enumerate().map(|(index, field)| {
        let mut choices = FieldChoices {
            name: field.name.clone(),
            ..FieldChoices::default()
        };
        if !field.ty.is_orderable() {
            return choices;
        }
        if !is_in_a_key(index) {
            if query.pinned(index).is_none() {
                choices.sort = SortChoice::Unserved;
            }
            return choices;
        }
        let mut is_served = |constraint| {
            let changed = with_constraint(query, rows, index, constraint);
            taken(&changed).is_some_and(|serves| !serves.filter_scan.contains(&index))
        };
        choices.equality = is_served(any_value());
        choices.range = is_served(any_range());
        choices.prefix = choices.range && field.ty.is_textual() && no_prefix(collection, field).is_none();
        choices.sort = match taken(&sorted_by(query, index)) {
            None => SortChoice::Unserved,
            Some(serves) if serves.order.first() == Some(&index) => SortChoice::Served,
            Some(_) => SortChoice::Pointless,
        };
        choices
    });
    Choices {
        fields: fields.collect(),
        missing_partition_fields: sort_orders.first().map_or_else(Vec::new, |first| {
            first.field_names(&planner::missing_partition_fields(first, query))
        }),
    }
}

/// Returns an equality constraint with an arbitrary value. Whether a view serves the query does not
/// depend on the value.
pub fn any_value() -> Constraint {
    Constraint::In(vec![Vec::new()])
}

fn any_range() -> Constraint {
    Constraint::Range {
        lower: Some(RangeEnd {
            value: Vec::new(),
            inclusive: true,
        }),
        upper: None,
    }
}

/// Returns `query` with another constraint on a field, or unchanged if `rows` (conditions that
/// cannot be removed) fixes the field.
fn with_constraint(query: &Query, rows: &Query, field: usize, constraint: Constraint) -> Query {
    let mut changed = Query {
        contradiction: false,
        ..query.clone()
    };
    if !matches!(rows.constraint(field), Some(Constraint::In(_))) {
        changed.constrain(field, constraint);
    }
    changed
}

fn sorted_by(query: &Query, field: usize) -> Query {
    Query {
        sort: vec![(field, Direction::Ascending)],
        contradiction: false,
        ..query.clone()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use recto_model::schema::Schema;

    use super::*;
    use crate::bind;

    /// Returns a collection of 100 fields, of which three are in the key.
    fn wide() -> Arc<Collection> {
        let others: Vec<String> = (0..97).map(|index| format!("f{index} = \"int\"")).collect();
        let text = format!(
            "[collection.wide]\nfields = {{ day = \"text\", at = \"int\", id = \"int\", {} }}\n\
             key = [\"day\", \"at\", \"id\"]\npartition = [\"day\"]\norder = [\"-at\", \"id\"]\nwrites = \"append\"\n",
            others.join(", ")
        );
        Arc::clone(&Schema::parse(&text).unwrap().collections[0])
    }

    fn asked(collection: &Collection, filter: &str, sort: &str, rows: &str) -> (Choices, usize) {
        let sort_orders = [Arc::new(SortOrder::base(collection))];
        let rows = bind::conditions(collection, rows).unwrap();
        let mut conditions = bind::conditions(collection, filter).unwrap();
        conditions.extend(rows.iter().cloned());
        let sort = bind::sort_terms(collection, sort).unwrap();
        let query = Query::new(collection, &conditions, &sort).unwrap();
        let rows = Query::new(collection, &rows, &[]).unwrap();
        let mut looks = 0;
        let serves = |sort_order: &SortOrder, query: &Query| {
            looks += 1;
            planner::serves(collection, sort_order, query, &Wishes::default())
        };
        let choices = choices_by(collection, &sort_orders, &query, &rows, serves, |_| None);
        (choices, looks)
    }

    fn of<'c>(choices: &'c Choices, name: &str) -> &'c FieldChoices {
        choices.fields.iter().find(|field| field.name == name).unwrap()
    }

    #[test]
    fn a_hundred_fields_take_as_many_looks_as_the_key_has_fields() {
        let (choices, looks) = asked(&wide(), "day = \"mon\"", "", "");
        assert_eq!((choices.fields.len(), looks), (100, 9));
        let at = of(&choices, "at");
        assert!(at.equality && at.range && at.sort == SortChoice::Served);
        // A view sorts rows by `id` only among rows with one value of `at`.
        let id = of(&choices, "id");
        assert!(!id.equality && !id.range && id.sort == SortChoice::Unserved);
        let day = of(&choices, "day");
        assert!(day.equality && !day.range && day.sort == SortChoice::Pointless);
        assert_eq!(of(&choices, "f96").sort, SortChoice::Unserved);
        assert_eq!(choices.missing_partition_fields, [""; 0]);
    }

    #[test]
    fn existing_conditions_determine_further_choices() {
        let wide = wide();
        let (nothing, _) = asked(&wide, "", "", "");
        assert_eq!(nothing.missing_partition_fields, ["day"]);
        assert!(of(&nothing, "day").equality && !of(&nothing, "at").equality);
        let (pinned, _) = asked(&wide, "day = \"mon\" AND at = 1", "", "");
        assert!(of(&pinned, "id").range && of(&pinned, "id").sort == SortChoice::Served);
        assert_eq!(of(&pinned, "at").sort, SortChoice::Pointless);
        // A new condition replaces the contradictory conditions on its field, which removes the
        // contradiction.
        let (contradiction, _) = asked(&wide, "day = \"mon\" AND at > 2 AND at < 1", "", "");
        assert!(of(&contradiction, "at").equality && !of(&contradiction, "f0").equality);
    }

    #[test]
    fn fields_fixed_by_row_filters_stay_fixed() {
        let (choices, _) = asked(&wide(), "", "", "day = \"mon\"");
        assert_eq!(choices.missing_partition_fields, [""; 0]);
        assert!(of(&choices, "day").range && of(&choices, "at").range);
    }
}
