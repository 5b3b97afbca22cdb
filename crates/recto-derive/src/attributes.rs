//! What stands in `#[record(…)]`, with where it stands.

use proc_macro2::Span;
use recto_model::schema::WriteMode;
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Error, Fields, Ident, LitStr, Path, Result, Token, Type};

const STRUCT_ATTRIBUTES: &str = "`collection`, `key`, `partition`, `order`, `writes`, `crate`";

/// A struct that derives `Record`.
pub(crate) struct Struct {
    pub(crate) ident: Ident,
    pub(crate) collection: LitStr,
    pub(crate) key: Vec<LitStr>,
    pub(crate) partition: Option<Vec<LitStr>>,
    pub(crate) order: Vec<LitStr>,
    pub(crate) writes: WriteMode,
    pub(crate) crate_path: Option<Path>,
    pub(crate) fields: Vec<Field>,
}

/// One of its fields.
pub(crate) struct Field {
    pub(crate) ident: Ident,
    pub(crate) ty: Type,
    /// Its name in the collection.
    pub(crate) name: String,
    /// Where the name stands: the attribute, or the field.
    pub(crate) name_span: Span,
}

#[derive(Default)]
struct Attributes {
    collection: Option<LitStr>,
    key: Option<Vec<LitStr>>,
    partition: Option<Vec<LitStr>>,
    order: Option<Vec<LitStr>>,
    writes: Option<WriteMode>,
    crate_path: Option<Path>,
}

impl Struct {
    pub(crate) fn read(input: &DeriveInput) -> Result<Self> {
        let Data::Struct(data) = &input.data else {
            return Err(Error::new(
                input.ident.span(),
                "a record is a struct with named fields",
            ));
        };
        let Fields::Named(fields) = &data.fields else {
            return Err(Error::new(
                input.ident.span(),
                "a record's fields have names: `struct Name { field: Type }`",
            ));
        };
        if !input.generics.params.is_empty() {
            return Err(Error::new(
                input.generics.span(),
                "a record has no type or lifetime parameters: it owns its values, and each collection has one type",
            ));
        }
        let attributes = Attributes::read(&input.attrs)?;
        let missing = |attribute: &str| {
            Error::new(
                input.ident.span(),
                format!("`{attribute}` is missing: #[record(collection = \"users\", key = [\"user_id\"])]"),
            )
        };
        Ok(Self {
            ident: input.ident.clone(),
            collection: attributes.collection.ok_or_else(|| missing("collection"))?,
            key: attributes.key.ok_or_else(|| missing("key"))?,
            partition: attributes.partition,
            order: attributes.order.unwrap_or_default(),
            writes: attributes.writes.unwrap_or_default(),
            crate_path: attributes.crate_path,
            fields: fields.named.iter().map(Field::read).collect::<Result<_>>()?,
        })
    }
}

impl Field {
    fn read(field: &syn::Field) -> Result<Self> {
        let Some(ident) = field.ident.clone() else {
            return Err(Error::new(field.span(), "a record's fields have names"));
        };
        let mut name: Option<LitStr> = None;
        for attribute in record_attributes(&field.attrs) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("name") {
                    return set(&mut name, &meta, text);
                }
                Err(meta.error("a field has the attribute `name` only: #[record(name = \"user_id\")]"))
            })?;
        }
        Ok(Self {
            name: name
                .as_ref()
                .map_or_else(|| ident.unraw().to_string(), LitStr::value),
            name_span: name.as_ref().map_or(ident.span(), LitStr::span),
            ident,
            ty: field.ty.clone(),
        })
    }
}

impl Attributes {
    fn read(attributes: &[Attribute]) -> Result<Self> {
        let mut found = Self::default();
        for attribute in record_attributes(attributes) {
            attribute.parse_nested_meta(|meta| found.take(&meta))?;
        }
        Ok(found)
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let Some(ident) = meta.path.get_ident() else {
            return Err(meta.error(format!("the attributes are {STRUCT_ATTRIBUTES}")));
        };
        match ident.to_string().as_str() {
            "collection" => set(&mut self.collection, meta, text),
            "key" => set(&mut self.key, meta, list),
            "partition" => set(&mut self.partition, meta, list),
            "order" => set(&mut self.order, meta, list),
            "writes" => set(&mut self.writes, meta, writes),
            "crate" => set(&mut self.crate_path, meta, |meta| text(meta)?.parse()),
            other => Err(meta.error(format!(
                "there is no attribute `{other}`: the attributes are {STRUCT_ATTRIBUTES}"
            ))),
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
        return Err(meta.error("this is given twice"));
    }
    *place = Some(read(meta)?);
    Ok(())
}

pub(crate) fn text(meta: &ParseNestedMeta<'_>) -> Result<LitStr> {
    meta.value()?.parse()
}

fn list(meta: &ParseNestedMeta<'_>) -> Result<Vec<LitStr>> {
    let value = meta.value()?;
    if !value.peek(syn::token::Bracket) {
        return Err(value.error("a list of field names is expected: [\"user_id\"]"));
    }
    let content;
    syn::bracketed!(content in value);
    let names = Punctuated::<LitStr, Token![,]>::parse_terminated(&content)?;
    Ok(names.into_iter().collect())
}

fn writes(meta: &ParseNestedMeta<'_>) -> Result<WriteMode> {
    let text = text(meta)?;
    [WriteMode::Update, WriteMode::Overwrite, WriteMode::Append]
        .into_iter()
        .find(|mode| mode.as_str() == text.value())
        .ok_or_else(|| Error::new(text.span(), "`writes` is \"update\", \"overwrite\" or \"append\""))
}
