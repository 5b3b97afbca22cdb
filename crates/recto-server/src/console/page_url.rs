//! Address of a page of records. Its parameters have the names of the API.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, utf8_percent_encode};
use recto::session::PageRequest;
use recto_api::text;

use crate::problem::Problem;

/// Characters that are not percent-encoded in a segment of a path.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// Parameter with the query of the page from which a form was sent. If the server rejects the
/// form's query, it shows that page below the error.
pub(super) const WAS: &str = "was";

/// Address of a page of records, split into its parameters.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct PageUrl {
    pub(super) collection: String,
    pub(super) filter: String,
    pub(super) order_by: String,
    pub(super) page_size: Option<i64>,
    pub(super) page_token: String,
    pub(super) last: bool,
    pub(super) from: Option<String>,
    pub(super) around: Option<String>,
    pub(super) fields: Vec<String>,
    /// View to read; empty to let the server choose the view.
    pub(super) view: String,
    pub(super) allow_filter_scan: bool,
}

/// Parameters of a URL or of a sent form, in their order.
pub(super) type Parameters = Vec<(String, String)>;

/// Parses the parameters of a URL or of a sent form (`application/x-www-form-urlencoded`).
pub(super) fn parameters(query: &[u8]) -> Parameters {
    let decoded = |text: &[u8]| {
        let text: Vec<u8> = text
            .iter()
            .map(|&byte| if byte == b'+' { b' ' } else { byte })
            .collect();
        percent_decode(&text).decode_utf8_lossy().into_owned()
    };
    let pairs = query.split(|&byte| byte == b'&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let end = pair.iter().position(|&byte| byte == b'=');
            let (name, value) = end.map_or((pair, &[][..]), |end| (&pair[..end], &pair[end + 1..]));
            (decoded(name), decoded(value))
        })
        .collect()
}

/// Returns the value of the first parameter named `name`.
pub(super) fn first<'a>(parameters: &'a Parameters, name: &str) -> Option<&'a str> {
    parameters
        .iter()
        .find(|(held, _)| held == name)
        .map(|(_, value)| value.as_str())
}

impl PageUrl {
    /// Reads the address of a page from parameters. Ignores unknown parameters.
    ///
    /// # Errors
    /// The page size is not a number.
    pub(super) fn parse(collection: &str, parameters: &Parameters) -> Result<Self, Problem> {
        let text = |name: &str| first(parameters, name).unwrap_or_default().trim().to_owned();
        let some = |name: &str| Some(text(name)).filter(|text| !text.is_empty());
        let page_size = some("page_size").map(|text| {
            text.parse().map_err(|_| {
                Problem::invalid_parameter(
                    "page_size",
                    format!("page_size is {text:?}, which is not a number"),
                )
            })
        });
        let fields = parameters.iter().filter(|(name, _)| name == "fields");
        let fields = fields.flat_map(|(_, names)| names.split(','));
        Ok(Self {
            collection: collection.to_owned(),
            filter: text("filter"),
            order_by: text("order_by"),
            page_size: page_size.transpose()?,
            page_token: text("page_token"),
            last: text("last") == "true",
            from: some("from"),
            around: some("around"),
            fields: fields
                .map(|name| name.trim().to_owned())
                .filter(|name| !name.is_empty())
                .collect(),
            view: text("view"),
            allow_filter_scan: text("allow_filter_scan") == "true",
        })
    }

    /// Returns the request of the API for the page.
    pub(super) fn request(&self) -> PageRequest {
        PageRequest {
            filter: self.filter.clone(),
            order_by: self.order_by.clone(),
            page_size: self.page_size,
            page_token: self.page_token.clone(),
            last: self.last,
            from: self.from.clone(),
            around: self.around.clone(),
            view: self.view.clone(),
            allow_filter_scan: self.allow_filter_scan,
            both_edges: true,
            ..PageRequest::default()
        }
    }

    /// Returns the address of the first page of the query.
    pub(super) fn first_page(&self) -> Self {
        Self {
            page_token: String::new(),
            last: false,
            from: None,
            around: None,
            ..self.clone()
        }
    }

    pub(super) fn last_page(&self) -> Self {
        Self {
            last: true,
            ..self.first_page()
        }
    }

    pub(super) fn with_token(&self, token: &str) -> Self {
        Self {
            page_token: token.to_owned(),
            ..self.first_page()
        }
    }

    /// Returns the address of the first page with another filter.
    pub(super) fn with_filter(&self, filter: String) -> Self {
        Self {
            filter,
            ..self.first_page()
        }
    }

    /// Returns the address of the first page without a named view, so that the server chooses the
    /// view.
    pub(super) fn without_view(&self) -> Self {
        Self {
            view: String::new(),
            ..self.first_page()
        }
    }

    /// Returns the address of the first page with another sort.
    pub(super) fn with_order(&self, order_by: impl Into<String>) -> Self {
        Self {
            order_by: order_by.into(),
            ..self.first_page()
        }
    }

    /// Returns the parameters that select and sort the rows, without those that select a page.
    pub(super) fn query_parameters(&self) -> Vec<(&'static str, String)> {
        let mut parameters = Vec::new();
        let mut add = |name, value: &str| {
            if !value.is_empty() {
                parameters.push((name, value.to_owned()));
            }
        };
        add("filter", &self.filter);
        add("order_by", &self.order_by);
        add("fields", &self.fields.join(","));
        add("view", &self.view);
        add(
            "allow_filter_scan",
            if self.allow_filter_scan { "true" } else { "" },
        );
        parameters
    }

    /// Returns all parameters of the address: those of the query, and those that select a page.
    pub(super) fn all_parameters(&self) -> Vec<(&'static str, String)> {
        let mut parameters = self.query_parameters();
        if let Some(size) = self.page_size {
            parameters.push(("page_size", size.to_string()));
        }
        if !self.page_token.is_empty() {
            parameters.push(("page_token", self.page_token.clone()));
        }
        if self.last {
            parameters.push(("last", "true".to_owned()));
        }
        parameters.extend(self.from.clone().map(|from| ("from", from)));
        parameters.extend(self.around.clone().map(|around| ("around", around)));
        parameters
    }

    /// Returns the part of the address after `?`.
    pub(super) fn query(&self) -> String {
        encoded(&self.all_parameters())
    }

    /// Returns the address as a relative URL.
    pub(super) fn href(&self) -> String {
        with_query(
            format!("/collections/{}", path_segment(&self.collection)),
            &self.query(),
        )
    }

    /// Returns the address, with `page` as the page to show again if the server rejects the query.
    pub(super) fn href_from(&self, page: &Self) -> String {
        let mut parameters = self.all_parameters();
        parameters.push((WAS, page.query()));
        with_query(
            format!("/collections/{}", path_segment(&self.collection)),
            &encoded(&parameters),
        )
    }

    /// Returns the page from which a form was sent, which is shown below an error; `None` if the
    /// request has no such page.
    pub(super) fn was(collection: &str, parameters: &Parameters) -> Option<Self> {
        let query = first(parameters, WAS)?;
        Self::parse(collection, &self::parameters(query.as_bytes())).ok()
    }

    /// Returns whether the address has a filter, a sort or a view, and not only a collection.
    pub(super) fn has_query(&self) -> bool {
        !self.filter.is_empty() || !self.order_by.is_empty() || !self.view.is_empty()
    }

    /// Returns the address of an export of all rows. Without a query it is the API's export, which
    /// returns rows without an order.
    pub(super) fn export_href(&self) -> String {
        let collection = path_segment(&self.collection);
        if self.has_query() {
            let path = format!("/collections/{collection}/export");
            return with_query(path, &encoded(&self.query_parameters()));
        }
        let fields = ("fields", self.fields.join(","));
        let parameters = if self.fields.is_empty() {
            vec![]
        } else {
            vec![fields]
        };
        let path = format!("/v1/collections/{collection}/records:export");
        with_query(path, &encoded(&parameters))
    }

    /// Returns the address of an action on the collection, such as `new`.
    pub(super) fn action(&self, action: &str) -> String {
        format!("/collections/{}/{action}", path_segment(&self.collection))
    }

    /// Returns the address of an action on a record. It contains the current page, to which the
    /// action returns.
    pub(super) fn record_href(&self, action: &str, key: &[String]) -> String {
        let mut parameters: Vec<(&str, String)> = key.iter().map(|part| ("key", part.clone())).collect();
        let back = self.query();
        if !back.is_empty() {
            parameters.push(("back", back));
        }
        with_query(self.action(action), &encoded(&parameters))
    }
}

/// Appends a query to a path. An empty query appends nothing.
pub(super) fn with_query(path: String, query: &str) -> String {
    if query.is_empty() {
        path
    } else {
        format!("{path}?{query}")
    }
}

/// Percent-encodes a name as a segment of a path.
pub(super) fn path_segment(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

/// Encodes parameters as the part of a URL after `?`.
pub(super) fn encoded(parameters: &[(&str, String)]) -> String {
    text::query(parameters.iter().map(|(name, value)| (*name, value.as_str())))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn parsed(query: &str) -> PageUrl {
        PageUrl::parse("flights", &parameters(query.as_bytes())).unwrap()
    }

    #[test]
    fn an_address_is_read_as_it_was_written() {
        let page = PageUrl {
            collection: "flights".into(),
            filter: "carrier = \"U&A\" AND ß = '+ %'".into(),
            order_by: "time_hour desc".into(),
            page_size: Some(20),
            page_token: "a-b_c".into(),
            fields: vec!["carrier".into(), "flight".into()],
            view: "newest".into(),
            allow_filter_scan: true,
            ..PageUrl::default()
        };
        let href = page.href();
        assert!(
            href.starts_with("/collections/flights?filter=carrier%20%3D%20%22U%26A%22"),
            "{href}"
        );
        assert_eq!(parsed(&page.query()), page);
        assert_eq!(parsed("").href(), "/collections/flights");
    }

    #[test]
    fn another_query_begins_at_its_first_page() {
        let page = parsed("filter=a&page_token=t&page_size=5");
        assert_eq!(page.with_order("b").query(), "filter=a&order_by=b&page_size=5");
        assert_eq!(page.last_page().query(), "filter=a&page_size=5&last=true");
        assert_eq!(parsed("from=%5B1%5D").with_token("t").query(), "page_token=t");
    }

    #[test]
    fn a_page_size_is_a_number() {
        assert!(PageUrl::parse("flights", &parameters(b"page_size=many")).is_err());
    }

    #[test]
    fn the_way_back_is_kept_in_a_records_address() {
        let href = parsed("filter=a%20%3D%201").record_href("record", &["x,y".into(), "2".into()]);
        assert_eq!(
            href,
            "/collections/flights/record?key=x%2Cy&key=2&back=filter%3Da%2520%253D%25201"
        );
    }
}
