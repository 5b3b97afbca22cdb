//! What can be asked of a collection beside what is being asked: the planner says, field by field.

use recto::schema::Collection;
use recto::session::{Explanation, PageRequest};
use recto::{Session, Type};

use super::filter::{Chip, Operator, with};
use super::page_url::PageUrl;
use super::value::sample;

/// The most fields the planner is asked about. Each costs up to four plans and no read.
const MAX_PROBED_FIELDS: usize = 100;

/// What a field can be asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FieldOptions {
    pub(super) name: String,
    /// Conditions that a view serves.
    pub(super) operators: Vec<Operator>,
    pub(super) sort: SortOption,
}

/// Whether rows can be sorted by a field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum SortOption {
    /// A view serves it.
    Served,
    /// All rows have the same value, or the planner was not asked.
    #[default]
    Pointless,
    /// None does; why, and the view that would as text for the schema.
    Missing(String),
}

/// What each field can be asked, in the collection's order.
pub(super) async fn probe(
    session: &dyn Session,
    collection: &Collection,
    page: &PageUrl,
    chips: &[Chip],
) -> Vec<FieldOptions> {
    let mut all = Vec::with_capacity(collection.fields.len());
    for (index, field) in collection.fields.iter().enumerate() {
        let mut options = FieldOptions {
            name: field.name.clone(),
            ..FieldOptions::default()
        };
        if index < MAX_PROBED_FIELDS && field.ty.is_orderable() {
            options.operators = operators(session, collection, page, chips, index).await;
            options.sort = sort(session, page, &field.name).await;
        }
        all.push(options);
    }
    all
}

/// The query alone: which page of it is asked for does not matter to its plan.
fn request(page: &PageUrl) -> PageRequest {
    page.first_page().request()
}

async fn operators(
    session: &dyn Session,
    collection: &Collection,
    page: &PageUrl,
    chips: &[Chip],
    index: usize,
) -> Vec<Operator> {
    let field = &collection.fields[index];
    let value = sample(&field.ty);
    let name = &field.name;
    let mut served = Vec::new();
    let mut candidates = vec![
        (Operator::Equal, format!("{name} = {value}")),
        (Operator::GreaterOrEqual, format!("{name} >= {value}")),
    ];
    if field.ty.is_textual() {
        candidates.push((Operator::StartsWith, format!("startsWith({name}, {value})")));
    }
    for (operator, condition) in candidates {
        let request = PageRequest {
            filter: with(chips, name, operator, &condition),
            ..request(page)
        };
        let Ok(explanation) = session.explain(&page.collection, &request, false).await else {
            continue;
        };
        if is_checked_row_by_row(&explanation, name) {
            continue;
        }
        match operator {
            Operator::Equal => served.extend([Operator::Equal, Operator::OneOf]),
            Operator::GreaterOrEqual => served.extend(Operator::RANGE),
            other => served.push(other),
        }
    }
    if is_mostly_ranged(&field.ty) {
        served.sort_by_key(|operator| !Operator::RANGE.contains(operator));
    }
    served
}

/// Whether people ask for ranges of values rather than for one: the operator offered first.
fn is_mostly_ranged(ty: &Type) -> bool {
    matches!(
        ty,
        Type::Timestamp | Type::Date | Type::Time | Type::Float | Type::Double | Type::Decimal
    )
}

fn is_checked_row_by_row(explanation: &Explanation, field: &str) -> bool {
    explanation.residual.iter().any(|condition| {
        condition
            .strip_prefix(field)
            .is_some_and(|rest| rest.starts_with(' '))
    })
}

async fn sort(session: &dyn Session, page: &PageUrl, field: &str) -> SortOption {
    let request = request(&page.with_order(field));
    match session.explain(&page.collection, &request, false).await {
        Ok(explanation) if explanation.order.starts_with(&format!("{field} ")) => SortOption::Served,
        Ok(_) => SortOption::Pointless,
        Err(error) => SortOption::Missing(match error.hint() {
            Some(hint) => hint.to_owned(),
            None => error.message().to_owned(),
        }),
    }
}
