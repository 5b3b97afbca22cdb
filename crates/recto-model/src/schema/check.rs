//! Rules of the schema language. Converts declarations (the words of a schema) to the checked
//! model.

use std::collections::{BTreeMap, HashMap};

use super::context::Context;
use super::declared::{
    Declared, DeclaredBucket, DeclaredSortOrder, DeclaredView, PerField, Placed, Span, Word,
};
use super::model::{Collection, Field, OrderColumn, Places, View, WriteMode};
use super::names::{check_name, nearest, proposed};
use super::options::{Bucket, BucketStrategy, Nulls};
use super::problem::Problem;
use super::type_text::check_type;
use super::{
    BASE_SORT_ORDER, MAX_FIELDS, MAX_KEY_FIELDS, MAX_UNIQUE, MAX_VIEWS, PRIMARY_VIEW, collation, rounding,
};
use crate::Type;
use crate::collation::Collation;
use crate::instants::is_time;
use crate::table::Direction;
use crate::width::Width;

/// Checks a declared collection, and returns it as a part of the model. Reports all errors to
/// `context`, and returns `None` if there is an error.
pub(super) fn collection(declared: &Declared, context: &mut Context<'_>) -> Option<Collection> {
    let before = context.count();
    name(&declared.name, "collection", context);
    let attached = declared.attached.as_ref().map(|attached| attached.value.clone());
    let writes = match (&declared.writes, &attached) {
        (_, Some(_)) => WriteMode::Append,
        (Some(writes), None) => writes.value,
        (None, None) => WriteMode::default(),
    };
    let mut rules = Rules {
        collection: &declared.name.text,
        writes,
        fields: HashMap::new(),
        names: Vec::new(),
        key: &[],
        context,
    };
    let fields = rules.fields(declared);
    rules.key(declared);
    let base = rules.base(declared);
    let views = rules.views(declared);
    rules.one_collation_a_field(declared, &views);
    let unique = rules.unique(declared);
    rules.attached(declared);
    let places = rules.places(declared);
    if context.count() > before {
        return None;
    }
    Some(Collection {
        name: declared.name.text.clone(),
        fields,
        key: texts(&declared.key),
        partition: base.partition,
        order: base.order,
        writes,
        attached,
        bucket: base.bucket,
        unique,
        views,
        places,
    })
}

/// Checks that the name of a declared part of a schema is valid. `what` is the kind of the part,
/// such as "view", for the error message.
pub(super) fn name(word: &Word, what: &'static str, context: &mut Context<'_>) {
    if let Err(error) = check_name(&word.text) {
        context.report(&word.span, || Problem::Name {
            name: word.text.clone(),
            what,
            error,
            proposed: proposed(&word.text),
        });
    }
}

fn texts(words: &[Word]) -> Vec<String> {
    words.iter().map(|word| word.text.clone()).collect()
}

/// Sort order (base table or view) whose declaration was checked.
struct SortOrder {
    partition: Vec<String>,
    order: Vec<OrderColumn>,
    bucket: Option<Bucket>,
    collate: BTreeMap<String, Collation>,
    rounding: BTreeMap<String, Width>,
}

/// Checker of the rules for one collection.
struct Rules<'a, 'c, 't> {
    collection: &'a str,
    writes: WriteMode,
    /// Types by field name. The type is `None` if its text was wrong, which was already reported.
    fields: HashMap<&'a str, Option<&'a Type>>,
    names: Vec<&'a str>,
    key: &'a [Word],
    context: &'c mut Context<'t>,
}

impl<'a> Rules<'a, '_, '_> {
    fn fields(&mut self, declared: &'a Declared) -> Vec<Field> {
        if declared.fields.is_empty() {
            self.context.report(&declared.name.span, || Problem::Missing {
                key: "fields",
                of: format!("collection `{}`", declared.name.text),
                example: "fields = { user_id = \"uuid\", name = \"text\" }",
            });
        }
        if let Some(field) = declared.fields.get(MAX_FIELDS) {
            self.limit(&field.name.span, "fields of a collection", MAX_FIELDS);
        }
        let mut fields = Vec::new();
        for field in declared.fields.iter().take(MAX_FIELDS) {
            name(&field.name, "field", self.context);
            if self.fields.insert(&field.name.text, field.ty.as_ref()).is_some() {
                self.duplicate(&field.name, "fields");
            }
            self.names.push(&field.name.text);
            if let Some(Err(error)) = field.ty.as_ref().map(check_type) {
                self.context.report(&field.name.span, || Problem::Type {
                    reason: format!("field `{}`: {}", field.name.text, error.reason),
                    hint: error.hint,
                });
            }
            fields.extend(field.ty.as_ref().map(|ty| Field {
                name: field.name.text.clone(),
                ty: ty.clone(),
            }));
        }
        fields
    }

    fn key(&mut self, declared: &'a Declared) {
        self.key = &declared.key[..declared.key.len().min(MAX_KEY_FIELDS)];
        if declared.key.is_empty() {
            self.context.report(&declared.name.span, || Problem::Missing {
                key: "key",
                of: format!("collection `{}`", declared.name.text),
                example: "key = [\"user_id\"], the fields that identify a record",
            });
        }
        self.list(&declared.key, "key", 0);
    }

    /// Returns the sort order of the base table. In an `update` collection, each partition of the
    /// base table has one record, because the declared sort order belongs to a view.
    fn base(&mut self, declared: &'a Declared) -> SortOrder {
        if self.writes == WriteMode::Update {
            return SortOrder {
                partition: texts(&declared.key),
                order: Vec::new(),
                bucket: None,
                collate: BTreeMap::new(),
                rounding: BTreeMap::new(),
            };
        }
        self.refuse_view_options(&declared.sort_order);
        let sort_order = self.sort_order(&declared.sort_order, true);
        self.key_fields_only(&declared.sort_order, false);
        sort_order
    }

    /// Checks a declared sort order and returns it. For a base table (`base`), the partition
    /// defaults to the whole key, and missing key fields are appended to the order.
    fn sort_order(&mut self, declared: &'a DeclaredSortOrder, base: bool) -> SortOrder {
        let partition: &[Word] = match &declared.partition {
            Some(partition) => &partition.value,
            None if base => self.key,
            None => &[],
        };
        if let Some(declared) = &declared.partition {
            self.list(&declared.value, "partition", 0);
        }
        if let (Some(empty), None) = (&declared.partition, &declared.bucket)
            && empty.value.is_empty()
        {
            self.context.report(&empty.span, || Problem::Empty {
                list: "partition".into(),
                hint: "name the fields that group records, leave it out, or declare `bucket`, which splits \
                       the whole collection",
            });
        }
        let order_words: &[Word] = declared.order.as_ref().map_or(&[], |order| &order.value);
        self.list(order_words, "order", partition.len());
        for word in order_words.iter().take(MAX_KEY_FIELDS) {
            let field = word.text.strip_prefix('-').unwrap_or(&word.text);
            if partition.iter().any(|partition| partition.text == field) {
                self.context.report(&word.span, || Problem::OrderInPartition {
                    name: field.to_owned(),
                    whole_key: base && declared.partition.is_none(),
                });
            }
        }
        let order: Vec<OrderColumn> = order_words
            .iter()
            .take(MAX_KEY_FIELDS)
            .map(|word| OrderColumn::read(&word.text))
            .collect();
        let completed = self.completed(partition, &order);
        let bucket = declared
            .bucket
            .as_ref()
            .and_then(|bucket| self.bucket(bucket, &completed));
        if let Some(bucket) = &declared.bucket {
            self.kept_without_a_time(bucket, declared, &completed);
        }
        let order = if base { completed } else { order };
        let textual = |ty: &Type| ty.is_textual();
        let collate = self.per_field(
            "collate",
            declared.collate.as_ref(),
            &order,
            textual,
            "text or ascii",
        );
        let rounding = self.rounding(declared.rounding.as_ref(), &order);
        SortOrder {
            partition: texts(partition),
            order,
            bucket,
            collate,
            rounding,
        }
    }

    /// Returns `order`, followed by the key fields that neither `order` nor `partition` names.
    fn completed(&self, partition: &[Word], order: &[OrderColumn]) -> Vec<OrderColumn> {
        let mut completed = order.to_vec();
        for key in self.key {
            let named = partition.iter().any(|word| word.text == key.text)
                || order.iter().any(|column| column.field == key.text);
            if !named {
                completed.push(OrderColumn {
                    field: key.text.clone(),
                    direction: Direction::Ascending,
                });
            }
        }
        completed
    }

    /// Checks a list of fields for a key, partition or order: each field must exist, occur once,
    /// and be orderable. `more` is the number of other fields that count against the same limit.
    fn list(&mut self, words: &'a [Word], list: &'static str, more: usize) {
        if !words.is_empty() && words.len() + more > MAX_KEY_FIELDS {
            let span = &words[MAX_KEY_FIELDS.saturating_sub(more).min(words.len() - 1)].span;
            self.limit(span, "fields in a key, or in partition and order", MAX_KEY_FIELDS);
        }
        let mut seen = Vec::new();
        for word in words.iter().take(MAX_KEY_FIELDS) {
            let field = match list {
                "order" => word.text.strip_prefix('-').unwrap_or(&word.text),
                _ => &word.text,
            };
            if seen.contains(&field) {
                self.duplicate(word, list);
                continue;
            }
            seen.push(field);
            let Some(ty) = self.known(word, field, list) else {
                continue;
            };
            if !ty.is_orderable() {
                self.context.report(&word.span, || Problem::NotOrderable {
                    name: field.to_owned(),
                    list: list.into(),
                    type_name: ty.to_string(),
                });
            }
        }
    }

    /// Returns the type of the field named `field`. If the field does not exist, reports an error
    /// at `word`, which is an entry of the option `list`.
    fn known(&mut self, word: &Word, field: &str, list: &str) -> Option<&'a Type> {
        if let Some(ty) = self.fields.get(field) {
            return *ty;
        }
        if self.names.is_empty() {
            // The missing fields of the collection were already reported. Do not report an error
            // for every name.
            return None;
        }
        let (names, collection) = (&self.names, self.collection);
        self.context.report(&word.span, || Problem::UnknownField {
            name: field.to_owned(),
            list: list.to_owned(),
            collection: collection.to_owned(),
            nearest: nearest(field, names.iter().copied()).map(str::to_owned),
        });
        None
    }

    /// Checks that a sort order uses only key fields. A base table finds rows by their key alone. A
    /// row in a view of an `overwrite` collection must never change its position.
    fn key_fields_only(&mut self, declared: &'a DeclaredSortOrder, view: bool) {
        if self.key.is_empty() {
            // The missing key was already reported. Do not report an error for every name.
            return;
        }
        let lists = [("partition", &declared.partition), ("order", &declared.order)];
        for (list, words) in lists {
            let words = words.as_ref().map_or(&[][..], |words| &words.value);
            for word in words.iter().take(MAX_KEY_FIELDS) {
                let field = word.text.strip_prefix('-').unwrap_or(&word.text);
                let in_key = self.key.iter().any(|key| key.text == field);
                if !in_key && self.fields.contains_key(field) {
                    let writes = self.writes;
                    self.context.report(&word.span, || Problem::NotInKey {
                        name: field.to_owned(),
                        list: list.into(),
                        writes,
                        view,
                    });
                }
            }
        }
    }

    fn refuse_view_options(&mut self, declared: &DeclaredSortOrder) {
        for (key, span) in declared.view_options() {
            let writes = self.writes;
            let hint = match key {
                "collate" => "declare a view with this order, and put `collate` there",
                _ => "leave it out: all records have the fields of a base table's sort order",
            };
            let reason =
                format!("`{key}` is an option of views, but this is a base table with writes = \"{writes}\"");
            self.conflict(&span, reason, hint);
        }
    }

    fn views(&mut self, declared: &'a Declared) -> Vec<View> {
        let mut views = Vec::new();
        let sugar = self.writes == WriteMode::Update && !declared.sort_order.is_empty();
        if sugar {
            views.extend(self.view(PRIMARY_VIEW, &declared.name.span, &declared.sort_order));
        }
        if let Some(view) = declared.views.get(MAX_VIEWS) {
            self.limit(&view.name.span, "views of a collection", MAX_VIEWS);
        }
        for DeclaredView {
            name: view,
            sort_order,
        } in declared.views.iter().take(MAX_VIEWS)
        {
            name(view, "view", self.context);
            self.view_name(view, sugar);
            views.extend(self.view(&view.text, &view.span, sort_order));
        }
        views
    }

    /// Checks that every sort order of a collection has a different name, including the base table.
    fn view_name(&mut self, name: &Word, sugar: bool) {
        let reason = match name.text.as_str() {
            // An `update` collection may also declare this view by its name, as the canonical
            // schema text does.
            PRIMARY_VIEW if sugar || self.writes != WriteMode::Update => {
                format!("`partition` and `order` of the collection declare the view `{PRIMARY_VIEW}`")
            }
            BASE_SORT_ORDER => format!("`{BASE_SORT_ORDER}` is the sort order by the key"),
            _ => return,
        };
        self.conflict(&name.span, reason, "give this view another name");
    }

    fn view(&mut self, name: &str, span: &Span, declared: &'a DeclaredSortOrder) -> Option<View> {
        let before = self.context.count();
        if declared.partition.is_none() && declared.order.is_none() {
            self.context.report(span, || Problem::Missing {
                key: "partition",
                of: format!("view `{name}`"),
                example: "partition = [\"status\"] with order = [\"-occurred_on\"]",
            });
        } else if declared.partition.is_none() && declared.bucket.is_none() {
            self.conflict(
                span,
                format!(
                    "view `{name}` has neither a partition nor a bucket: all records would be one partition"
                ),
                "declare `partition`, or `bucket` to split the whole collection",
            );
        }
        if self.writes == WriteMode::Overwrite {
            self.key_fields_only(declared, true);
        }
        if self.writes != WriteMode::Update {
            self.refuse_moving_options(declared);
        }
        let fields = declared.fields.as_ref().map(|fields| self.view_fields(fields));
        let sort_order = self.sort_order(declared, false);
        (self.context.count() == before).then(|| View {
            name: name.to_owned(),
            partition: sort_order.partition,
            order: sort_order.order,
            bucket: sort_order.bucket,
            nulls: declared
                .nulls
                .as_ref()
                .map_or_else(Nulls::default, |nulls| nulls.value),
            collate: sort_order.collate,
            rounding: sort_order.rounding,
            fields,
            verify: declared.verify.as_ref().is_none_or(|verify| verify.value),
        })
    }

    /// Checks the declaration of an attached table, which another program owns. The schema must not
    /// say how to create or write the table, or how long to retain its rows.
    fn attached(&mut self, declared: &'a Declared) {
        let Some(attached) = &declared.attached else {
            return;
        };
        if let Some(writes) = &declared.writes {
            self.conflict(
                &writes.span,
                format!(
                    "`writes` sets how records are written, but Recto does not write to the attached table \
                     {}",
                    attached.value
                ),
                "leave it out",
            );
        }
        self.hashed_decimals(declared);
        self.as_it_is(&declared.sort_order);
        for view in &declared.views {
            self.as_it_is(&view.sort_order);
            let nulls = view.sort_order.nulls.as_ref().map(|nulls| nulls.value);
            if nulls != Some(Nulls::Skip) {
                self.conflict(
                    &view.name.span,
                    format!(
                        "view `{}` is an existing table, whose key columns are never null",
                        view.name.text
                    ),
                    "declare nulls = \"skip\"",
                );
            }
        }
    }

    /// Rejects decimals in partition keys of attached tables. Cassandra hashes the bytes of a
    /// partition key, so 0.1 and 0.10 are two partitions in Cassandra. Recto treats equal decimals
    /// as one value, and would miss a partition.
    fn hashed_decimals(&mut self, declared: &'a Declared) {
        let base = declared.sort_order.partition.as_ref();
        let views = declared.views.iter();
        let views = views.filter_map(|view| view.sort_order.partition.as_ref());
        let views = views.map(|words| words.value.as_slice());
        let base = base.map_or(declared.key.as_slice(), |words| words.value.as_slice());
        for words in std::iter::once(base).chain(views) {
            for word in words {
                if self.fields.get(word.text.as_str()) == Some(&Some(&Type::Decimal)) {
                    self.conflict(
                        &word.span,
                        format!(
                            "`{}` is a decimal in a partition key of an attached table, where 0.1 and 0.10 \
                             are two partitions",
                            word.text
                        ),
                        "do not attach this table: Recto cannot read it",
                    );
                }
            }
        }
    }

    fn as_it_is(&mut self, declared: &DeclaredSortOrder) {
        let bucket = declared
            .bucket
            .as_ref()
            .map(|bucket| ("bucket", bucket.span.clone()));
        let collate = declared
            .collate
            .as_ref()
            .map(|collate| ("collate", collate.span.clone()));
        for (key, span) in bucket.into_iter().chain(collate) {
            self.conflict(
                &span,
                format!("`{key}` sets how a table is created, but an attached table exists already"),
                "leave it out",
            );
        }
    }

    fn refuse_moving_options(&mut self, declared: &DeclaredSortOrder) {
        let writes = self.writes;
        for (key, span) in declared.view_options() {
            if !matches!(key, "nulls" | "collate") {
                self.conflict(
                    &span,
                    format!(
                        "`{key}` is for records that move, and with writes = \"{writes}\" records do not move"
                    ),
                    "leave it out",
                );
            }
        }
    }

    fn view_fields(&mut self, declared: &'a Placed<Vec<Word>>) -> Vec<String> {
        if let Some(word) = declared.value.get(MAX_FIELDS) {
            self.limit(&word.span, "fields of a view", MAX_FIELDS);
        }
        let mut fields: Vec<String> = Vec::new();
        for word in declared.value.iter().take(MAX_FIELDS) {
            self.known(word, &word.text, "fields");
            if fields.contains(&word.text) {
                self.duplicate(word, "fields");
            }
            fields.push(word.text.clone());
        }
        fields
    }

    fn bucket(&mut self, declared: &Placed<DeclaredBucket>, order: &[OrderColumn]) -> Option<Bucket> {
        let is_moving = self.writes == WriteMode::Update;
        let Some(first) = order.first() else {
            self.conflict(
                &declared.span,
                "a partition is one record, so a bucket cannot split it".into(),
                "declare the key fields that group records as `partition`",
            );
            return None;
        };
        let DeclaredBucket {
            strategy,
            strategy_span,
            shards,
            keep,
        } = &declared.value;
        if let BucketStrategy::Time { field, .. } = strategy {
            let word = Word::new(field, strategy_span.clone());
            let ty = self.known(&word, field, "bucket");
            if !self.fields.contains_key(field.as_str()) {
                return None;
            }
            if first.field != *field {
                self.conflict(
                    strategy_span,
                    format!(
                        "a bucket by time splits by the first order field, which is `{}`",
                        first.field
                    ),
                    "name that field, or split by size: bucket = { target = \"10MB\" }",
                );
            } else if let Some(ty) = ty.filter(|ty| !is_time(ty)) {
                self.conflict(
                    strategy_span,
                    format!("`{field}` is not a time, but {ty}"),
                    "use a timestamp, timeuuid or date, or split by size: bucket = { target = \"10MB\" }",
                );
            }
        }
        if let Some(keep) = keep {
            self.keep(&keep.span, first, is_moving);
        }
        Some(Bucket {
            strategy: strategy.clone(),
            shards: shards.as_ref().map_or(1, |shards| shards.value),
            keep: keep.as_ref().map(|keep| keep.value),
        })
    }

    /// Checks the option `keep`, which deletes old buckets. The first order field must be a time.
    /// Records must not change their position, because a bucket must contain only rows of its time.
    fn keep(&mut self, span: &Span, first: &OrderColumn, is_moving: bool) {
        let ty = self.fields.get(first.field.as_str()).copied().flatten();
        if is_moving {
            self.conflict(
                span,
                "`keep` is for records that do not move, and with writes = \"update\" entries of views move"
                    .into(),
                "leave it out, and write the records with an expiry",
            );
        } else if let Some(ty) = ty.filter(|ty| !is_time(ty)) {
            self.conflict(
                span,
                format!(
                    "`keep` uses the first order field, and `{}` is not a time, but {ty}",
                    first.field
                ),
                "order by a timestamp, timeuuid or date first, or leave it out",
            );
        }
    }

    /// Checks that every row of a sort order with `keep` has a time. A row without a time would
    /// never be deleted, or would never be in the view.
    fn kept_without_a_time(
        &mut self,
        bucket: &Placed<DeclaredBucket>,
        declared: &DeclaredSortOrder,
        order: &[OrderColumn],
    ) {
        let (Some(keep), Some(first)) = (&bucket.value.keep, order.first()) else {
            return;
        };
        let is_in_key = self.key.iter().any(|key| key.text == first.field);
        let skips = declared
            .nulls
            .as_ref()
            .is_some_and(|nulls| nulls.value == Nulls::Skip);
        if self.writes == WriteMode::Append && !is_in_key && !skips {
            self.conflict(
                &keep.span,
                format!("`keep` uses `{}`, which a record may lack", first.field),
                "declare nulls = \"skip\", which leaves such records out of the view; or use a time of the \
                 key as first order field",
            );
        }
    }

    /// Returns the values, by field name, of a declared option that applies to order fields.
    /// `takes` says to which types the option applies.
    fn per_field<T: Clone>(
        &mut self,
        key: &'static str,
        declared: Option<&Placed<PerField<T>>>,
        order: &[OrderColumn],
        takes: fn(&Type) -> bool,
        type_names: &str,
    ) -> BTreeMap<String, T> {
        let Some(declared) = declared else {
            return BTreeMap::new();
        };
        let mut values = BTreeMap::new();
        match &declared.value {
            PerField::All(value) => {
                for column in order {
                    if let Some(Some(ty)) = self.fields.get(column.field.as_str())
                        && takes(ty)
                    {
                        values.insert(column.field.clone(), value.clone());
                    }
                }
                let is_known =
                    |column: &OrderColumn| !matches!(self.fields.get(column.field.as_str()), Some(None));
                if values.is_empty() && order.iter().all(is_known) {
                    self.conflict(
                        &declared.span,
                        format!(
                            "`{key}` applies to order fields that are {type_names}, but `order` has no such \
                             field"
                        ),
                        "name such a field in `order`, or leave it out",
                    );
                }
            }
            PerField::Each(pairs) => {
                for (word, value) in pairs.iter().take(MAX_KEY_FIELDS) {
                    let ty = self.known(word, &word.text, key);
                    if !self.fields.contains_key(word.text.as_str()) {
                        continue;
                    }
                    let is_ordered = order.iter().any(|column| column.field == word.text);
                    if !is_ordered || ty.is_some_and(|ty| !takes(ty)) {
                        self.conflict(
                            &word.span,
                            format!(
                                "`{key}` applies to order fields that are {type_names}, and `{}` is not",
                                word.text
                            ),
                            "name it in `order`, or leave it out here",
                        );
                    }
                    values.insert(word.text.clone(), value.clone());
                }
            }
        }
        values
    }

    /// Returns the declared rounding of the order fields, by field name. Rejects rounding of key
    /// fields, because they never change and every row of a view contains their exact values.
    fn rounding(
        &mut self,
        declared: Option<&Placed<PerField<Width>>>,
        order: &[OrderColumn],
    ) -> BTreeMap<String, Width> {
        let Some(placed) = declared else {
            return BTreeMap::new();
        };
        let is_key = |name: &str| self.key.iter().any(|key| key.text == name);
        let order: Vec<OrderColumn> = match &placed.value {
            // A single width for all fields applies only to fields that are not in the key.
            PerField::All(_) => order
                .iter()
                .filter(|column| !is_key(&column.field))
                .cloned()
                .collect(),
            PerField::Each(_) => order.to_vec(),
        };
        let before = self.context.count();
        let values = self.per_field("rounding", declared, &order, is_time, rounding::TYPE_NAMES);
        if self.context.count() > before {
            return values;
        }
        for (name, width) in &values {
            if self.key.iter().any(|key| key.text == *name) {
                let reason = format!("`rounding` is for fields that change, but `{name}` is part of the key");
                self.conflict(&placed.span, reason, "leave it out here");
            }
            if let Some(Some(ty)) = self.fields.get(name.as_str())
                && !rounding::is_coarser(*width, ty)
            {
                let reason = format!("`{name}` is a {ty}, which cannot be rounded to {width}");
                self.conflict(&placed.span, reason, "use days, weeks, months or years");
            }
        }
        values
    }

    /// Checks that a field has the same collation in all views of a collection.
    fn one_collation_a_field(&mut self, declared: &Declared, views: &[View]) {
        for conflict in collation::conflicts(views) {
            let of_view = declared.views.iter().find(|view| view.name.text == conflict.view);
            let sort_order = of_view.map_or(&declared.sort_order, |view| &view.sort_order);
            let collate = sort_order.collate.as_ref();
            let is_all = collate.is_some_and(|collate| matches!(collate.value, PerField::All(_)));
            if is_all && self.fields.get(conflict.field) == Some(&None) {
                // Ignore a field whose type is unknown because of an earlier error. Only text can
                // have a collation, and this field may have another type.
                continue;
            }
            let collate = collate.map(|collate| &collate.span);
            let order = sort_order.order.as_ref().map(|order| &order.span);
            let span = collate.or(order).unwrap_or(&declared.name.span).clone();
            self.conflict(&span, conflict.to_string(), conflict.hint());
        }
    }

    fn unique(&mut self, declared: &'a Declared) -> Vec<Vec<String>> {
        let Some(unique) = &declared.unique else {
            return Vec::new();
        };
        if self.writes != WriteMode::Update {
            let writes = self.writes;
            self.conflict(
                &unique.span,
                format!("`unique` needs conditional writes, but writes = \"{writes}\" uses plain writes"),
                "use writes = \"update\", or make the fields the key",
            );
        }
        if unique.value.len() > MAX_UNIQUE {
            self.limit(&unique.span, "uniqueness constraints of a collection", MAX_UNIQUE);
        }
        let mut sets: Vec<Vec<String>> = Vec::new();
        for words in unique.value.iter().take(MAX_UNIQUE) {
            self.list(words, "unique", 0);
            let set = texts(words);
            if let Some(first) = words.first()
                && sets.contains(&set)
            {
                self.duplicate(first, "unique");
            }
            sets.push(set);
        }
        sets
    }

    /// Returns the positions in the schema text of the parts that
    /// [`Collection::position`](super::Collection::position) names.
    fn places(&self, declared: &Declared) -> Places {
        let mut places = BTreeMap::new();
        let mut add = |path: String, span: Option<&Span>| {
            let position = span.and_then(|span| self.context.position(span));
            places.extend(position.map(|position| (path, position)));
        };
        add(String::new(), Some(&declared.name.span));
        add(
            "writes".into(),
            declared.writes.as_ref().map(|writes| &writes.span),
        );
        add(
            "unique".into(),
            declared.unique.as_ref().map(|unique| &unique.span),
        );
        let mut sort_order = |path: &str, declared: &DeclaredSortOrder| {
            add(
                format!("{path}bucket"),
                declared.bucket.as_ref().map(|bucket| &bucket.span),
            );
            let bucket = declared.bucket.as_ref().map(|bucket| &bucket.value);
            let shards = bucket.and_then(|bucket| bucket.shards.as_ref());
            add(format!("{path}bucket.shards"), shards.map(|shards| &shards.span));
            let keep = bucket.and_then(|bucket| bucket.keep.as_ref());
            add(format!("{path}bucket.keep"), keep.map(|keep| &keep.span));
            add(
                format!("{path}nulls"),
                declared.nulls.as_ref().map(|nulls| &nulls.span),
            );
            add(
                format!("{path}collate"),
                declared.collate.as_ref().map(|collate| &collate.span),
            );
        };
        if self.writes == WriteMode::Update {
            sort_order(&format!("view.{PRIMARY_VIEW}."), &declared.sort_order);
        } else {
            sort_order("", &declared.sort_order);
        }
        for view in &declared.views {
            sort_order(&format!("view.{}.", view.name.text), &view.sort_order);
        }
        let primary = &declared.sort_order;
        let span = [&primary.partition, &primary.order]
            .into_iter()
            .flatten()
            .map(|list| &list.span)
            .next();
        add(format!("view.{PRIMARY_VIEW}"), span);
        for view in &declared.views {
            add(format!("view.{}", view.name.text), Some(&view.name.span));
        }
        Places(places)
    }

    fn duplicate(&mut self, word: &Word, list: &str) {
        self.context.report(&word.span, || Problem::Duplicate {
            name: word.text.trim_start_matches('-').to_owned(),
            list: list.to_owned(),
        });
    }

    fn limit(&mut self, span: &Span, what: &'static str, limit: usize) {
        self.context.report(span, || Problem::Limit { what, limit });
    }

    fn conflict(&mut self, span: &Span, reason: String, hint: &str) {
        self.context.report(span, || Problem::Conflict {
            reason,
            hint: hint.to_owned(),
        });
    }
}
