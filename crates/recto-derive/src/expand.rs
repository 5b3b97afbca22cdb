//! Code that the macro `Record` generates.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::Path;
use syn::spanned::Spanned;

use crate::attributes::Struct;

/// Returns the implementation of `Record` for a checked struct.
pub(crate) fn expand(record: &Struct) -> TokenStream {
    let recto = recto(record.crate_path.as_ref());
    let model = quote!(#recto::__private::model);
    let ident = &record.ident;
    let names: Vec<&str> = record.fields.iter().map(|field| field.name.as_str()).collect();
    let count = names.len();
    let collection = collection(record, &model);
    let read = record.fields.iter().enumerate().map(|(index, field)| {
        let (member, name, ty) = (&field.ident, &field.name, &field.ty);
        // Use the span of the type, so that the compiler reports an unsupported type once, at its
        // place in the struct.
        let value = quote_spanned!(ty.span()=> #model::record::read_field(row, columns[#index], #name)?);
        quote!(#member: #value)
    });
    let write = record.fields.iter().enumerate().map(|(index, field)| {
        let (member, ty) = (&field.ident, &field.ty);
        quote_spanned!(ty.span()=> #index => #model::native::FieldType::write_cell(&self.#member, out))
    });
    let check = record.fields.iter().enumerate().map(|(index, field)| {
        let (name, ty) = (&field.name, &field.ty);
        quote_spanned!(ty.span()=> #index => #model::record::check_field::<#ty>(cell, #name))
    });
    let key_types = key_types(record, &model);
    let fields_ident = format_ident!("__{}Fields", ident);
    let (fields, field_values) = typed_fields(record, &fields_ident, &model);
    let implementation = quote! {
        #[automatically_derived]
        impl #model::record::Record for #ident {
            type Fields = #fields_ident;

            const FIELDS: #fields_ident = #field_values;

            #collection

            fn field_names() -> &'static [&'static str] {
                &[#(#names),*]
            }

            fn read(
                row: #model::RowRef<'_>,
                columns: &[u16],
            ) -> ::core::result::Result<Self, #model::record::RecordError> {
                let columns: &[u16; #count] = columns
                    .first_chunk()
                    .expect("there is a column for each field of a record");
                ::core::result::Result::Ok(Self { #(#read),* })
            }

            fn write(
                &self,
                field: usize,
                out: &mut ::std::vec::Vec<u8>,
            ) -> ::core::result::Result<bool, #model::cell::CellError> {
                match field {
                    #(#write,)*
                    _ => ::core::panic!("a record has no field {field}"),
                }
            }

            fn check_cell(
                field: usize,
                cell: ::core::option::Option<&[u8]>,
            ) -> ::core::result::Result<(), #model::record::RecordError> {
                match field {
                    #(#check,)*
                    _ => ::core::panic!("a record has no field {field}"),
                }
            }
        }
    };
    quote! {
        const _: () = {
            #fields

            #implementation
        };

        #key_types
    }
}

/// Generates a struct with a member for each field of the record (for typed filters and sorts), and
/// a value of that struct.
fn typed_fields(record: &Struct, fields_ident: &Ident, model: &TokenStream) -> (TokenStream, TokenStream) {
    let ident = &record.ident;
    let members = record.fields.iter().map(|field| {
        let (vis, member, ty) = (&field.vis, &field.ident, &field.ty);
        quote!(#vis #member: #model::record::TypedField<#ident, #ty>)
    });
    let values = record.fields.iter().map(|field| {
        let (member, name) = (&field.ident, &field.name);
        quote!(#member: #model::record::TypedField::new(#name))
    });
    let declaration = quote! {
        #[doc(hidden)]
        #[allow(dead_code, missing_docs, private_interfaces, unreachable_pub, non_camel_case_types)]
        #[derive(::core::clone::Clone, ::core::marker::Copy, ::core::fmt::Debug)]
        pub struct #fields_ident {
            #(#members,)*
        }
    };
    (declaration, quote!(#fields_ident { #(#values),* }))
}

/// Returns the path of the crate `recto`: the path in the attribute `crate`, or the name of the
/// dependency in the crate that is being compiled.
pub(crate) fn recto(given: Option<&Path>) -> TokenStream {
    if let Some(path) = given {
        return quote!(#path);
    }
    let name = match crate_name("recto") {
        Ok(FoundCrate::Name(name)) => name,
        // Use the name `recto` in the tests and examples of the crate `recto` itself. Also use it
        // if the crate is not found, because the compiler's error message then names the missing
        // crate.
        Ok(FoundCrate::Itself) | Err(_) => "recto".to_owned(),
    };
    let name = Ident::new(&name, Span::call_site());
    quote!(::#name)
}

fn collection(record: &Struct, model: &TokenStream) -> TokenStream {
    let (collection, text) = (&record.collection, &record.declaration.text);
    let fields = record.fields.iter().map(|field| {
        let (name, ty) = (&field.name, &field.ty);
        quote_spanned! {ty.span()=>
            (::std::string::String::from(#name), <#ty as #model::native::FieldType>::field_type())
        }
    });
    quote! {
        fn collection() -> #model::schema::Collection {
            let fields = ::std::vec![#(#fields),*];
            match #model::schema::Collection::of_record(#collection, fields, #text) {
                ::core::result::Result::Ok(collection) => collection,
                ::core::result::Result::Err(error) => ::core::panic!("{error}"),
            }
        }
    }
}

/// Returns code that makes the compiler check that each key field can be in a key. The compiler
/// reports an error at the field's type.
///
/// ```compile_fail,E0277
/// mod shim {
///     pub mod __private {
///         pub use recto_model as model;
///     }
/// }
///
/// #[derive(recto_derive::Record)]
/// #[record(collection = "events", key = ["at"], crate = "crate::shim")]
/// struct Event {
///     at: Option<i64>,
/// }
/// # fn main() {}
/// ```
///
/// The code also checks that each field of a partition or order has an order:
///
/// ```compile_fail,E0277
/// mod shim {
///     pub mod __private {
///         pub use recto_model as model;
///     }
/// }
///
/// #[derive(recto_derive::Record)]
/// #[record(collection = "events", key = ["at"], crate = "crate::shim")]
/// #[record(view(name = "by_tags", partition = ["tags"]))]
/// struct Event {
///     at: i64,
///     tags: Vec<String>,
/// }
/// # fn main() {}
/// ```
fn key_types(record: &Struct, model: &TokenStream) -> TokenStream {
    let declaration = &record.declaration;
    let checks = record.fields.iter().filter_map(|field| {
        let ty = &field.ty;
        if declaration.key.contains(&field.name) {
            Some(quote_spanned!(ty.span()=> key_type::<#ty>();))
        } else if declaration.ordered.contains(&field.name) {
            Some(quote_spanned!(ty.span()=> order_type::<#ty>();))
        } else {
            None
        }
    });
    quote! {
        #[allow(dead_code)]
        const _: () = {
            const fn key_type<T: #model::native::KeyType>() {}
            const fn order_type<T: #model::native::OrderType>() {}
            #(#checks)*
        };
    }
}
