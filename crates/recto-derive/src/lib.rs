//! `#[derive(Record)]` for Recto: a Rust struct as the records of a collection; and `#[derive(FieldType)]`: a Rust
//! type as a field of such a struct.
//!
//! Users of Recto have this as `recto::Record` and depend on `recto` alone.
//!
//! | module | holds |
//! |---|---|
//! | `attributes` | what stands in `#[record(…)]`, with where it stands |
//! | `check` | the schema language's rules, applied while compiling |
//! | `expand` | the code that is made |
//! | `field` | enums and newtypes as fields |

mod attributes;
mod check;
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
/// On the struct, with the meanings they have in a schema file:
///
/// | attribute | |
/// |---|---|
/// | `collection = "…"` | the collection's name; required |
/// | `key = ["…", …]` | the fields that identify one record; required |
/// | `partition = ["…", …]` | the key fields that group records; the whole key if left out |
/// | `order = ["-…", …]` | the order within a partition, `-` before a descending field |
/// | `writes = "…"` | `"update"` (the default), `"overwrite"` or `"append"` |
/// | `crate = "…"` | the path of the crate `recto`, where it cannot be found by itself |
///
/// On a field, `name = "…"` gives it another name in the collection.
///
/// A field's Rust type says its CQL type; `Option` makes it one that may be null. Names, lists and
/// what belongs together are checked while compiling, and reported at the attribute that is wrong.
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
