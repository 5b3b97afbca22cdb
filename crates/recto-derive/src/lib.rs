//! Macros `#[derive(Record)]` and `#[derive(FieldType)]` of Recto. `Record` makes the values of a
//! Rust struct the records of a collection. `FieldType` makes a Rust type usable as a field of such
//! a struct.
//!
//! Programs use the macros as `recto::Record` and `recto::FieldType`, and depend only on `recto`.
//!
//! | module | content |
//! |---|---|
//! | `attributes` | content of `#[record(…)]`, with its position |
//! | `check` | rules of the schema language, checked at compile time |
//! | `declaration` | attributes in the form of a schema file |
//! | `expand` | generated code |
//! | `field` | enums and newtypes as fields |

mod attributes;
mod check;
mod declaration;
mod expand;
mod field;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes the values of a struct with named fields the records of a collection.
///
/// ```
/// # mod recto {
/// #     pub use recto_derive::Record;
/// #     pub mod __private {
/// #         pub use recto_model as model;
/// #     }
/// # }
/// use recto::Record;
///
/// #[derive(Record)]
/// #[record(
///     collection = "flights_by_carrier",
///     key = ["carrier", "time_hour", "flight"],
///     partition = ["carrier"],
///     order = ["-time_hour"],
///     writes = "append",
/// )]
/// # #[record(crate = "recto")]
/// struct Flight {
///     time_hour: jiff::Timestamp,
///     carrier: String,
///     flight: i32,
///     #[record(name = "destination")]
///     dest: Option<String>,
/// }
/// # fn main() {}
/// ```
///
/// # Attributes of the struct
///
/// The attributes have the names and meanings of the keys of a schema file. Write nested options in
/// parentheses: `bucket(target = "10MB")` corresponds to `bucket = { target = "10MB" }` in a schema
/// file.
///
/// | attribute | |
/// |---|---|
/// | `collection = "…"` | the collection's name; required |
/// | `key = ["…", …]` | the fields that identify one record; required |
/// | `partition = ["…", …]` | the fields that group records; the whole key by default |
/// | `order = ["-…", …]` | the order within a partition, `-` before a descending field |
/// | `writes = "…"` | `"update"` (the default), `"overwrite"` or `"append"` |
/// | `unique = ["…", ["…", "…"]]` | fields, or lists of fields, whose values no two records share |
/// | `bucket(…)` | size, or span of time, of the buckets into which partitions are split; see below |
/// | `view(name = "…", …)` | a view; repeat the attribute for each view |
/// | `attached = "keyspace.table"` | the table to read, if another program writes it |
/// | `crate = "…"` | the path of the crate `recto`, if the macro cannot find it |
///
/// The attribute `bucket` has `target = "10MB"`, or `rows = 20000`, or `time = "…", width = "1
/// month"`. It can also have `shards = 8` and `keep = "90 days"`.
///
/// The attribute `view` accepts `partition`, `order`, `bucket` and the following attributes. A
/// collection with `writes = "update"` also accepts the following attributes, because its partition
/// and order are a view named `primary`.
///
/// | attribute | |
/// |---|---|
/// | `fields = ["…", …]` | additional fields of the view, besides partition, order and key; all by default |
/// | `nulls = "…"` | position of records without an order field: `"last"` (default), `"first"`, `"skip"` |
/// | `collate = "…"`, `collate(name = "…")` | language that sorts the text of all order fields, or of one |
/// | `rounding = "…"`, `rounding(seen = "…")` | width to which times of all order fields, or of one, are rounded |
/// | `verify = false` | reads entries of the view without comparing them with their records |
///
/// A struct may omit options that the store's collection has, except the key, the partition, the
/// order and `writes`. The store keeps an omitted option when the program applies the struct's
/// collection.
///
/// ```
/// # mod recto {
/// #     pub use recto_derive::Record;
/// #     pub mod __private {
/// #         pub use recto_model as model;
/// #     }
/// # }
/// use recto::Record;
///
/// #[derive(Record)]
/// #[record(collection = "users", key = ["id"], unique = ["email", ["tenant", "slug"]])]
/// #[record(view(name = "by_tenant", partition = ["tenant"], order = ["name"], collate = "de", nulls = "last"))]
/// #[record(view(name = "newest", order = ["-joined"], bucket(target = "10MB")))]
/// # #[record(crate = "recto")]
/// struct User {
///     id: i64,
///     email: String,
///     tenant: String,
///     slug: String,
///     name: Option<String>,
///     joined: jiff::Timestamp,
/// }
///
/// #[derive(Record)]
/// #[record(collection = "alarms", key = ["at", "id"], partition = [], order = ["-at"], writes = "append")]
/// #[record(bucket(time = "at", width = "1 month", keep = "1 year"))]
/// # #[record(crate = "recto")]
/// struct Alarm {
///     at: jiff::Timestamp,
///     id: i64,
/// }
/// # use recto_model::record::Record as _;
/// # fn main() {
/// #     assert_eq!(User::collection().views.len(), 2);
/// #     assert!(Alarm::collection().bucket.is_some());
/// # }
/// ```
///
/// # Attributes of a field
///
/// `name = "…"` gives a field another name in the collection.
///
/// The Rust type of a field determines its CQL type. `Option` makes the field nullable.
///
/// # Errors
///
/// The compiler reports an error at the wrong attribute, by the rules of a schema file. The macro
/// cannot check rules about types, such as the rule that `collate` applies to text, because it does
/// not know the type that a name denotes. These rules are checked when the program calls
/// `Record::collection`, which panics if a rule is violated. A test that calls the function once
/// detects such an error.
#[proc_macro_derive(Record, attributes(record))]
pub fn derive_record(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    attributes::Struct::read(&input)
        .and_then(|record| {
            check::check(&record)?;
            Ok(expand::expand(&record))
        })
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Makes an enum of names, or a struct with one value, a field of records. The type can be used in structs
/// that derive `Record`, in filters and in keys.
///
/// An enum is a `text` field that contains the name of the variant, or the name in `#[record(name =
/// "…")]` on the variant. Reading a text that is not the name of a variant is an error, so do not
/// change a name after records contain it. A struct with one value is stored as the value.
///
/// `#[record(crate = "…")]` is the path of the crate `recto`, if the macro cannot find it.
#[proc_macro_derive(FieldType, attributes(record))]
pub fn derive_field_type(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    field::derive(&input)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
