//! `#[derive(Record)]` for Recto: a Rust struct as the records of a collection; and `#[derive(FieldType)]`: a Rust
//! type as a field of such a struct.
//!
//! Users of Recto have this as `recto::Record` and depend on `recto` alone.
//!
//! | module | holds |
//! |---|---|
//! | `attributes` | what stands in `#[record(…)]`, with where it stands |
//! | `check` | the schema language's rules, applied while compiling |
//! | `declaration` | attributes as a schema file would declare them |
//! | `expand` | the code that is made |
//! | `field` | enums and newtypes as fields |

mod attributes;
mod check;
mod declaration;
mod expand;
mod field;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes a struct with named fields the records of a collection.
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
/// They have the names and meanings of the keys of a schema file. Write options of one thing in parentheses:
/// `bucket(target = "10MB")` is `bucket = { target = "10MB" }` there.
///
/// | attribute | |
/// |---|---|
/// | `collection = "…"` | the collection's name; required |
/// | `key = ["…", …]` | the fields that identify one record; required |
/// | `partition = ["…", …]` | the fields that group records; the whole key by default |
/// | `order = ["-…", …]` | the order within a partition, `-` before a descending field |
/// | `writes = "…"` | `"update"` (the default), `"overwrite"` or `"append"` |
/// | `unique = ["…", ["…", "…"]]` | fields, and lists of fields, whose values no two records share |
/// | `bucket(…)` | how partitions are split: `target = "10MB"`, `rows = 20000`, or `time = "…", width = "1 month"`; with `shards = 8` and `keep = "90 days"` |
/// | `view(name = "…", …)` | a view; once for each |
/// | `attached = "keyspace.table"` | the table that is read, if another program writes it |
/// | `crate = "…"` | the path of the crate `recto`, where it cannot be found by itself |
///
/// A view has the attributes `partition`, `order` and `bucket`, and these. The collection may have them, too, if
/// `writes = "update"`: then its partition and order are a view named `primary`.
///
/// | attribute | |
/// |---|---|
/// | `fields = ["…", …]` | the fields that the view holds, in addition to those of its partition, order and key; all by default |
/// | `nulls = "…"` | where records without an order field stand: `"last"` (the default), `"first"` or `"skip"` |
/// | `collate = "…"`, `collate(name = "…")` | the language by which text of order fields sorts: of all, or of each |
/// | `rounding = "…"`, `rounding(seen = "…")` | the width to which times of order fields are rounded: of all, or of each |
/// | `verify = false` | reads entries of the view without comparing them with their records |
///
/// A struct may leave out what the store's collection has beyond the key, the partition, the order and `writes`. The
/// store keeps these when the program applies the struct's collection.
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
/// A field's Rust type says its CQL type; `Option` makes it one that may be null.
///
/// # Errors
///
/// The compiler reports what is wrong at the attribute that is wrong, by the rules of a schema file. It does not see what
/// type a name stands for. So a rule about types, such as that `collate` is for text, holds when the program asks for the
/// collection: `Record::collection` panics. A test that calls it once finds that.
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

/// Makes an enum of names, or a struct around one value, a field of records: in structs that derive `Record`, in
/// filters and in keys.
///
/// An enum is a `text` field that holds the variant's name, or another: `#[record(name = "…")]` on the variant. Text
/// that is the name of no variant is an error where it is read; so a name stays what it is once records hold it. A
/// struct around one value is stored as the value.
///
/// `#[record(crate = "…")]` is the path of the crate `recto`, where it cannot be found by itself.
#[proc_macro_derive(FieldType, attributes(record))]
pub fn derive_field_type(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    field::derive(&input)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
