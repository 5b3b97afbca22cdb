//! Addition of views to the text of a schema.

use recto_model::schema::{Schema, View};

use crate::advisor::error::{DesignError, DesignErrorKind};

/// Returns the text of a schema with views added to one of its collections. The function appends
/// the views and leaves the existing text unchanged. If TOML does not allow tables at the end of
/// the text, it writes the whole schema anew, without comments.
///
/// # Errors
/// The result would not be a valid schema with these views.
pub fn with_views(text: &str, collection: &str, views: &[View]) -> Result<String, DesignError> {
    let broken = |why: &dyn std::fmt::Display| {
        DesignError::new(
            DesignErrorKind::Internal,
            format!("the views cannot be added to the schema: {why}"),
        )
    };
    let mut schema = Schema::parse(text).map_err(|errors| broken(&errors))?;
    let found = schema.collections.iter_mut().find(|one| one.name == collection);
    let Some(found) = found else {
        return Err(broken(&format!("it has no collection {collection}")));
    };
    let declared = views.iter().map(|view| found.view_declaration(view));
    let declared = declared.collect::<Vec<_>>().join("\n");
    std::sync::Arc::make_mut(found)
        .views
        .extend(views.iter().cloned());
    let line_end = if text.is_empty() || text.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    let blank = if views.is_empty() { "" } else { "\n" };
    for text in [format!("{text}{line_end}{blank}{declared}"), schema.to_toml()] {
        match Schema::parse(&text) {
            Ok(parsed) if parsed == schema => return Ok(text),
            _ => {}
        }
    }
    match Schema::parse(&schema.to_toml()) {
        Err(errors) => Err(broken(&errors)),
        Ok(_) => Err(broken(&"the result does not have the expected content")),
    }
}
