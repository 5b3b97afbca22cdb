//! Code of the macro `FieldType`, for enums without data and for structs with one value.

use proc_macro2::{Literal, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DataEnum, DeriveInput, Error, Fields, Ident, LitStr, Path, Result, Type, Variant};

use crate::attributes::{record_attributes, set, text};
use crate::expand::recto;

/// Returns the implementation of `FieldType` and of related traits for a type.
pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    if !input.generics.params.is_empty() {
        return Err(Error::new(
            input.generics.span(),
            "a field type cannot have type or lifetime parameters: it owns its value, and has one type in \
             the schema",
        ));
    }
    let recto = recto(crate_path(input)?.as_ref());
    let model = quote!(#recto::__private::model);
    let of_type = match &input.data {
        Data::Enum(data) => names(&input.ident, data, &model)?,
        Data::Struct(data) => around(&input.ident, inner(&input.ident, &data.fields)?, &model),
        Data::Union(_) => return Err(Error::new(input.ident.span(), ONE_VALUE)),
    };
    let in_queries = in_queries(&input.ident, &recto);
    Ok(quote!(#of_type #in_queries))
}

const ONE_VALUE: &str = "a field type must be an enum of names, or a struct with one value: `struct \
    OrderId(i64);`\nhelp: use `recto::types::Json<…>` for a type with several parts, if it implements the \
    traits of serde";

fn crate_path(input: &DeriveInput) -> Result<Option<Path>> {
    let mut path = None;
    for attribute in record_attributes(&input.attrs) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("crate") {
                return set(&mut path, &meta, |meta| text(meta)?.parse());
            }
            Err(meta.error("a field type has only the attribute `crate`; variants have `name`"))
        })?;
    }
    Ok(path)
}

/// Returns the type of the single value in a newtype struct, or an error for any other struct.
fn inner<'a>(ident: &Ident, fields: &'a Fields) -> Result<&'a Type> {
    match fields {
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 => Ok(&fields.unnamed[0].ty),
        _ => Err(Error::new(ident.span(), ONE_VALUE)),
    }
}

/// Generates the implementation of `FieldType` for a newtype struct, which is stored as its value.
fn around(ident: &Ident, ty: &Type, model: &TokenStream) -> TokenStream {
    // Use the span of the type, so that the compiler reports an unsupported type at its place in
    // the struct.
    let field = quote_spanned!(ty.span()=> <#ty as #model::native::FieldType>);
    quote! {
        #[automatically_derived]
        impl #model::native::FieldType for #ident {
            const NULLABLE: bool = #field::NULLABLE;

            fn field_type() -> #model::Type {
                #field::field_type()
            }

            #[inline]
            fn write_cell(
                &self,
                out: &mut ::std::vec::Vec<u8>,
            ) -> ::core::result::Result<bool, #model::cell::CellError> {
                #model::native::FieldType::write_cell(&self.0, out)
            }

            #[inline]
            fn read_cell(
                cell: ::core::option::Option<&[u8]>,
            ) -> ::core::result::Result<Self, #model::cell::CellError> {
                #field::read_cell(cell).map(Self)
            }
        }

        // If the type of the value cannot be in a key, this bound is never satisfied. Without the
        // lifetime `'never`, the compiler would reject the unsatisfied bound.
        #[automatically_derived]
        impl #model::native::KeyType for #ident where for<'never> #ty: #model::native::KeyType {}
    }
}

/// Generates the implementation of `FieldType` for an enum whose variants have no values. A value
/// is stored as the name of its variant.
fn names(ident: &Ident, data: &DataEnum, model: &TokenStream) -> Result<TokenStream> {
    if data.variants.is_empty() {
        return Err(Error::new(
            ident.span(),
            "a field type cannot be an enum without variants, because such an enum has no values",
        ));
    }
    let mut names: Vec<LitStr> = Vec::new();
    for variant in &data.variants {
        let name = name(variant)?;
        if names.iter().any(|earlier| earlier.value() == name.value()) {
            return Err(Error::new(
                name.span(),
                format!("two variants are named {:?}", name.value()),
            ));
        }
        names.push(name);
    }
    let variants: Vec<&Ident> = data.variants.iter().map(|variant| &variant.ident).collect();
    let cells: Vec<Literal> = names
        .iter()
        .map(|name| Literal::byte_string(name.value().as_bytes()))
        .collect();
    let own_name = ident.to_string();
    Ok(quote! {
        #[automatically_derived]
        impl #model::native::FieldType for #ident {
            fn field_type() -> #model::Type {
                #model::Type::Text
            }

            #[inline]
            fn write_cell(
                &self,
                out: &mut ::std::vec::Vec<u8>,
            ) -> ::core::result::Result<bool, #model::cell::CellError> {
                let name: &[u8] = match self {
                    #(Self::#variants => #cells,)*
                };
                out.extend_from_slice(name);
                ::core::result::Result::Ok(true)
            }

            #[inline]
            fn read_cell(
                cell: ::core::option::Option<&[u8]>,
            ) -> ::core::result::Result<Self, #model::cell::CellError> {
                match cell {
                    #(::core::option::Option::Some(#cells) => ::core::result::Result::Ok(Self::#variants),)*
                    other => ::core::result::Result::Err(
                        #model::native::no_variant(#own_name, other, &[#(#names),*]),
                    ),
                }
            }
        }

        #[automatically_derived]
        impl #model::native::KeyType for #ident {}
    })
}

/// Returns the text with which a variant is stored: the attribute `name` if there is one, otherwise
/// the variant's name.
fn name(variant: &Variant) -> Result<LitStr> {
    if !matches!(variant.fields, Fields::Unit) {
        return Err(Error::new(
            variant.span(),
            "a variant must be a name without values\nhelp: use `recto::types::Json<…>` for this enum, if it \
             implements the traits of serde",
        ));
    }
    let mut name = None;
    for attribute in record_attributes(&variant.attrs) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("name") {
                return set(&mut name, &meta, text);
            }
            Err(meta.error("a variant has only the attribute `name`: #[record(name = \"open\")]"))
        })?;
    }
    Ok(name.unwrap_or_else(|| LitStr::new(&variant.ident.to_string(), variant.ident.span())))
}

/// Generates the conversions with which values of the type can be used in filters and keys.
fn in_queries(ident: &Ident, recto: &TokenStream) -> TokenStream {
    let model = quote!(#recto::__private::model);
    let result = quote!(::core::result::Result<(), #model::cell::CellError>);
    quote! {
        #[automatically_derived]
        impl ::core::convert::From<#ident> for #recto::filter::Literal {
            fn from(value: #ident) -> Self {
                #recto::__private::literal_of(&value)
            }
        }

        #[automatically_derived]
        impl #recto::KeyPart for #ident {
            fn write(&self, ty: &#model::Type, out: &mut ::std::vec::Vec<u8>) -> #result {
                #recto::__private::write_part(self, ty, out)
            }
        }

        #[automatically_derived]
        impl #recto::Key for #ident {
            fn len(&self) -> usize {
                1
            }

            fn write(&self, _: usize, ty: &#model::Type, out: &mut ::std::vec::Vec<u8>) -> #result {
                #recto::__private::write_part(self, ty, out)
            }
        }
    }
}
