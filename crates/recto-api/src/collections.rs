//! Descriptions of a schema's collections, as the API returns them.

use std::collections::BTreeMap;

use recto_model::schema::{Collection, Field, SortOrder, WriteMode};
use serde::{Deserialize, Serialize};

/// Reply to `GET /v1/collections`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Collections"))]
pub struct CollectionList {
    /// Collections that the token sees, by name.
    pub collections: Vec<CollectionDescription>,
}

/// Fields, key and sort orders of a collection, for clients that read and write it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Collection"))]
pub struct CollectionDescription {
    /// Name of the collection.
    pub name: String,
    /// Write mode of the collection.
    pub writes: WriteKind,
    /// Fields of the key.
    pub key: Vec<String>,
    /// Fields of a record.
    pub fields: Vec<FieldDescription>,
    /// Sort orders of the collection: its own, and its views.
    pub views: Vec<SortOrderDescription>,
    /// Table of another keyspace from which the records are read; absent if Recto writes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub attached: Option<String>,
    /// Reason why the collection cannot be read or written; absent if it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub unavailable: Option<String>,
}

/// Write mode of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum WriteKind {
    /// A write changes a record, which has versions.
    Update,
    /// A write replaces a record.
    Overwrite,
    /// A write adds a record.
    Append,
    /// Recto does not write the collection.
    None,
}

/// A field of a collection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "CollectionField"))]
pub struct FieldDescription {
    /// Name of the field.
    pub name: String,
    /// CQL type of the field.
    #[serde(rename = "type")]
    pub ty: String,
    /// Whether every record has the field.
    pub required: bool,
    /// Operators that a filter can have on the field.
    pub operators: Vec<Operator>,
    /// Method by which a filter on the field finds records.
    pub filter: FilterMethod,
    /// Whether a view can sort by the field.
    pub sort: bool,
}

/// An operator of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Operator {
    /// Equal.
    #[serde(rename = "=")]
    Equal,
    /// Less.
    #[serde(rename = "<")]
    Less,
    /// Less or equal.
    #[serde(rename = "<=")]
    LessOrEqual,
    /// Greater.
    #[serde(rename = ">")]
    Greater,
    /// Greater or equal.
    #[serde(rename = ">=")]
    GreaterOrEqual,
    /// Begins with a text.
    #[serde(rename = "startsWith")]
    StartsWith,
}

/// Method by which a filter on a field finds records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FilterMethod {
    /// A view has the field in its partition or order.
    View,
    /// Recto checks rows one by one, if the request has `allow_filter_scan`.
    FilterScan,
}

/// A sort order of a collection: its own, or a view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "CollectionView"))]
pub struct SortOrderDescription {
    /// Name of the view; `base` is the order by the key, and `primary` the partition and order of the collection.
    pub name: String,
    /// Fields that a filter fixes with `=`, or with an OR of equalities.
    pub partition: Vec<String>,
    /// Order inside a partition; `-` is descending. Pages can have the exact reverse, too.
    pub order: Vec<String>,
    /// Order fields that are rounded down, each with its interval, such as `1 minute`. Filters on
    /// them are exact, and no page is sorted by them. Absent if there is none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rounding: BTreeMap<String, String>,
    /// Order fields whose text sorts by a collation, each with its language tag, such as `de`. Absent if there is none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub collate: BTreeMap<String, String>,
}

impl CollectionDescription {
    /// Returns the description of a collection. `unavailable` is the reason why the collection
    /// cannot be read or written; `None` if it can.
    ///
    /// ```
    /// use recto_api::collections::CollectionDescription;
    /// use recto_model::schema::Schema;
    ///
    /// let schema = Schema::parse("[collection.notes]\nfields = { id = \"int\" }\nkey = [\"id\"]")?;
    /// let description = CollectionDescription::new(&schema.collections[0], None);
    /// assert_eq!(description.views[0].name, "base");
    /// # Ok::<(), recto_model::schema::SchemaErrors>(())
    /// ```
    pub fn new(collection: &Collection, unavailable: Option<String>) -> Self {
        let sort_orders = collection.sort_orders();
        let fields = collection.fields.iter();
        Self {
            name: collection.name.clone(),
            writes: WriteKind::of(collection),
            key: collection.key.clone(),
            fields: fields
                .map(|field| FieldDescription::new(collection, &sort_orders, field))
                .collect(),
            views: sort_orders.iter().map(SortOrderDescription::new).collect(),
            attached: collection.attached.as_ref().map(ToString::to_string),
            unavailable,
        }
    }
}

impl WriteKind {
    /// Returns the write mode of a collection.
    fn of(collection: &Collection) -> Self {
        match collection.writes {
            _ if collection.attached.is_some() => Self::None,
            WriteMode::Update => Self::Update,
            WriteMode::Overwrite => Self::Overwrite,
            WriteMode::Append => Self::Append,
        }
    }
}

impl FieldDescription {
    fn new(collection: &Collection, sort_orders: &[SortOrder<'_>], field: &Field) -> Self {
        let by = || sort_orders.iter().filter(|one| one.is_by(&field.name));
        Self {
            name: field.name.clone(),
            ty: field.ty.to_string(),
            required: collection.is_required(&field.name),
            operators: operators(collection, field),
            filter: if by().next().is_some() {
                FilterMethod::View
            } else {
                FilterMethod::FilterScan
            },
            sort: by().any(|one| one.rounding_of(&field.name).is_none()),
        }
    }
}

fn operators(collection: &Collection, field: &Field) -> Vec<Operator> {
    let mut operators = vec![Operator::Equal];
    if field.ty.is_orderable() {
        operators.extend([
            Operator::Less,
            Operator::LessOrEqual,
            Operator::Greater,
            Operator::GreaterOrEqual,
        ]);
    }
    if field.ty.is_textual() && collection.collation_of(&field.name).is_none() {
        operators.push(Operator::StartsWith);
    }
    operators
}

impl SortOrderDescription {
    fn new(of: &SortOrder<'_>) -> Self {
        let rounding = of.order.iter().filter_map(|column| {
            let width = of.rounding_of(&column.field)?;
            Some((column.field.clone(), width.to_string()))
        });
        let collate = of.order.iter().filter_map(|column| {
            let collation = of.collation_of(&column.field)?;
            Some((column.field.clone(), collation.locale().to_owned()))
        });
        Self {
            name: of.name().to_owned(),
            partition: of.partition.to_vec(),
            order: of.order.iter().map(ToString::to_string).collect(),
            rounding: rounding.collect(),
            collate: collate.collect(),
        }
    }
}
