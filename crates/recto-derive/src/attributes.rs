//! Content of the attributes `#[record(…)]`, with its position in the source.

use proc_macro2::Span;
use recto_model::schema::nearest;
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Attribute, Data, DeriveInput, Error, Fields, Ident, Lit, LitStr, Path, Result, Token, Type, Visibility,
};

use crate::declaration::Declaration;

/// Names of the attributes that `#[record(…)]` accepts on a struct. Except `collection` and
/// `crate`, each is also a key of a schema file.
const STRUCT_ATTRIBUTES: [&str; 14] = [
    "collection",
    "key",
    "partition",
    "order",
    "writes",
    "unique",
    "view",
    "bucket",
    "nulls",
    "collate",
    "rounding",
    "verify",
    "attached",
    "crate",
];

/// Struct that derives `Record`, as the macro parsed it: its name, fields and `#[record(…)]`
/// attributes.
pub(crate) struct Struct {
    pub(crate) ident: Ident,
    pub(crate) collection: LitStr,
    /// Options of the collection that the struct declares (key, order, views, …), as text of a
    /// schema file.
    pub(crate) declaration: Declaration,
    pub(crate) crate_path: Option<Path>,
    pub(crate) fields: Vec<Field>,
}

/// Field of a struct that derives `Record`.
pub(crate) struct Field {
    pub(crate) vis: Visibility,
    pub(crate) ident: Ident,
    pub(crate) ty: Type,
    /// Name of the field in the collection, which `#[record(name = "…")]` can make differ from the
    /// Rust name.
    pub(crate) name: String,
    /// Position in the source of the field's name in the collection: of the attribute `name` if
    /// there is one, otherwise of the field.
    pub(crate) name_span: Span,
}

/// Attribute and its value: `key = ["id"]`, `bucket(target = "10MB")`.
pub(crate) struct Entry {
    pub(crate) name: Ident,
    pub(crate) value: Value,
}

/// Value of an attribute: a literal, a list, or a table of nested attributes, as in a schema file.
pub(crate) enum Value {
    Literal(Lit),
    List(Vec<Value>, Span),
    Table(Vec<Entry>, Span),
}

impl Struct {
    pub(crate) fn read(input: &DeriveInput) -> Result<Self> {
        let Data::Struct(data) = &input.data else {
            return Err(Error::new(
                input.ident.span(),
                "a record must be a struct with named fields",
            ));
        };
        let Fields::Named(fields) = &data.fields else {
            return Err(Error::new(
                input.ident.span(),
                "a record needs named fields: `struct Name { field: Type }`",
            ));
        };
        if !input.generics.params.is_empty() {
            return Err(Error::new(
                input.generics.span(),
                "a record cannot have type or lifetime parameters: it owns its values, and each collection \
                 has one type",
            ));
        }
        let (mut collection, mut crate_path, mut rest) = (None, None, Vec::new());
        for entry in struct_entries(&input.attrs)? {
            match entry.name.to_string().as_str() {
                "collection" => collection = Some(entry.text()?),
                "crate" => crate_path = Some(entry.text()?.parse()?),
                _ => rest.push(entry),
            }
        }
        let missing = |attribute: &str| {
            Error::new(
                input.ident.span(),
                format!("`{attribute}` is missing: #[record(collection = \"users\", key = [\"user_id\"])]"),
            )
        };
        let collection = collection.ok_or_else(|| missing("collection"))?;
        if !rest.iter().any(|entry| entry.name == "key") {
            return Err(missing("key"));
        }
        Ok(Self {
            ident: input.ident.clone(),
            collection,
            declaration: Declaration::of(&rest)?,
            crate_path,
            fields: fields.named.iter().map(Field::read).collect::<Result<_>>()?,
        })
    }
}

/// Parses the `#[record(…)]` attributes of a struct. Rejects unknown attributes, and any repetition
/// except of `view`.
fn struct_entries(attributes: &[Attribute]) -> Result<Vec<Entry>> {
    let mut entries: Vec<Entry> = Vec::new();
    for attribute in record_attributes(attributes) {
        for entry in attribute.parse_args_with(Punctuated::<Entry, Token![,]>::parse_terminated)? {
            let name = entry.name.to_string();
            if !STRUCT_ATTRIBUTES.contains(&name.as_str()) {
                let hint = nearest(&name, STRUCT_ATTRIBUTES.into_iter()).map_or_else(
                    || format!("the attributes are `{}`", STRUCT_ATTRIBUTES.join("`, `")),
                    |nearest| format!("did you mean `{nearest}`?"),
                );
                let message = format!("there is no attribute `{name}`\nhelp: {hint}");
                return Err(Error::new(entry.name.span(), message));
            }
            if name != "view" && entries.iter().any(|earlier| earlier.name == name) {
                return Err(Error::new(entry.name.span(), "this attribute occurs twice"));
            }
            entries.push(entry);
        }
    }
    Ok(entries)
}

impl Field {
    fn read(field: &syn::Field) -> Result<Self> {
        let Some(ident) = field.ident.clone() else {
            return Err(Error::new(field.span(), "a record needs named fields"));
        };
        let mut name: Option<LitStr> = None;
        for attribute in record_attributes(&field.attrs) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("name") {
                    return set(&mut name, &meta, text);
                }
                Err(meta.error("a field has only the attribute `name`: #[record(name = \"user_id\")]"))
            })?;
        }
        Ok(Self {
            vis: field.vis.clone(),
            name: name
                .as_ref()
                .map_or_else(|| ident.unraw().to_string(), LitStr::value),
            name_span: name.as_ref().map_or(ident.span(), LitStr::span),
            ident,
            ty: field.ty.clone(),
        })
    }
}

impl Entry {
    /// Returns the attribute's value if it is a string, otherwise an error at the value.
    pub(crate) fn text(&self) -> Result<LitStr> {
        match &self.value {
            Value::Literal(Lit::Str(text)) => Ok(text.clone()),
            other => Err(Error::new(
                other.span(),
                format!("`{}` must be text: {} = \"…\"", self.name, self.name),
            )),
        }
    }
}

impl Parse for Entry {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let name = Ident::parse_any(input)?;
        if input.peek(syn::token::Paren) {
            let content;
            let span = syn::parenthesized!(content in input).span.join();
            let entries = Punctuated::<Self, Token![,]>::parse_terminated(&content)?;
            return Ok(Self {
                name,
                value: Value::Table(entries.into_iter().collect(), span),
            });
        }
        if !input.peek(Token![=]) {
            return Err(Error::new(
                name.span(),
                format!("`{name}` needs a value: {name} = …"),
            ));
        }
        input.parse::<Token![=]>()?;
        if input.peek(syn::token::Brace) {
            return Err(input.error(format!("write options in parentheses: {name}(option = …)")));
        }
        let value = input.parse()?;
        Ok(Self { name, value })
    }
}

impl Parse for Value {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if input.peek(syn::token::Bracket) {
            let content;
            let span = syn::bracketed!(content in input).span.join();
            let values = Punctuated::<Self, Token![,]>::parse_terminated(&content)?;
            return Ok(Self::List(values.into_iter().collect(), span));
        }
        match input.parse()? {
            literal @ (Lit::Str(_) | Lit::Int(_) | Lit::Bool(_)) => Ok(Self::Literal(literal)),
            other => Err(Error::new(
                other.span(),
                "expected text, a whole number, true, false or a list",
            )),
        }
    }
}

impl Value {
    pub(crate) fn span(&self) -> Span {
        match self {
            Self::Literal(literal) => literal.span(),
            Self::List(_, span) | Self::Table(_, span) => *span,
        }
    }
}

pub(crate) fn record_attributes(attributes: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("record"))
}

pub(crate) fn set<T>(
    place: &mut Option<T>,
    meta: &ParseNestedMeta<'_>,
    read: impl Fn(&ParseNestedMeta<'_>) -> Result<T>,
) -> Result<()> {
    if place.is_some() {
        return Err(meta.error("this attribute occurs twice"));
    }
    *place = Some(read(meta)?);
    Ok(())
}

pub(crate) fn text(meta: &ParseNestedMeta<'_>) -> Result<LitStr> {
    meta.value()?.parse()
}
