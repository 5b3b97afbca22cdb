//! What page of a collection is looked at, as the query of its address: the API's own parameters.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, utf8_percent_encode};
use recto::session::PageRequest;
use recto_api::text;

use crate::problem::Problem;

/// Characters that stay as they are in a part of a path.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// The parameter that names the page one was looking at: it stands below what is refused.
pub(super) const WAS: &str = "was";

/// Which page of which collection.
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
    /// The view to read; empty: the server chooses.
    pub(super) view: String,
    pub(super) allow_filter_scan: bool,
}

/// The parameters of a query or of a form, in their order.
pub(super) type Parameters = Vec<(String, String)>;

/// Returns the parameters of a query or form (`application/x-www-form-urlencoded`).
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

/// The first parameter of a name.
pub(super) fn first<'a>(parameters: &'a Parameters, name: &str) -> Option<&'a str> {
    parameters
        .iter()
        .find(|(held, _)| held == name)
        .map(|(_, value)| value.as_str())
}

impl PageUrl {
    /// The page that parameters name; unknown ones are not looked at.
    ///
    /// # Errors
    /// The page size is not a number.
    pub(super) fn parse(collection: &str, parameters: &Parameters) -> Result<Self, Problem> {
        let text = |name: &str| first(parameters, name).unwrap_or_default().trim().to_owned();
        let some = |name: &str| Some(text(name)).filter(|text| !text.is_empty());
        let page_size = some("page_size").map(|text| {
            text.parse().map_err(|_| {
                Problem::invalid_parameter("page_size", format!("page_size is {text:?}, not a number"))
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

    /// The request for it, with both edges found out.
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

    /// The first page of the same query.
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

    /// The first page with another filter.
    pub(super) fn with_filter(&self, filter: String) -> Self {
        Self {
            filter,
            ..self.first_page()
        }
    }

    /// The first page of the view that the server chooses.
    pub(super) fn without_view(&self) -> Self {
        Self {
            view: String::new(),
            ..self.first_page()
        }
    }

    /// The first page with another sort.
    pub(super) fn with_order(&self, order_by: impl Into<String>) -> Self {
        Self {
            order_by: order_by.into(),
            ..self.first_page()
        }
    }

    /// The parameters that say which rows, in which order, without which page of them.
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

    /// All parameters.
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

    /// Its query, without `?`.
    pub(super) fn query(&self) -> String {
        encoded(&self.all_parameters())
    }

    /// Its address.
    pub(super) fn href(&self) -> String {
        with_query(
            format!("/collections/{}", path_segment(&self.collection)),
            &self.query(),
        )
    }

    /// Its address, for whom it may refuse: the page one came from is kept.
    pub(super) fn href_from(&self, page: &Self) -> String {
        let mut parameters = self.all_parameters();
        parameters.push((WAS, page.query()));
        with_query(
            format!("/collections/{}", path_segment(&self.collection)),
            &encoded(&parameters),
        )
    }

    /// The page that one came from, where its address says so.
    pub(super) fn was(collection: &str, parameters: &Parameters) -> Option<Self> {
        let query = first(parameters, WAS)?;
        Self::parse(collection, &self::parameters(query.as_bytes())).ok()
    }

    /// Whether the address has a query, not just a collection.
    pub(super) fn has_query(&self) -> bool {
        !self.filter.is_empty() || !self.order_by.is_empty() || !self.view.is_empty()
    }

    /// Where all rows of the query are exported: without a query, by the API, in no order.
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

    /// The address of something about the collection.
    pub(super) fn action(&self, action: &str) -> String {
        format!("/collections/{}/{action}", path_segment(&self.collection))
    }

    /// The address of something about one record, from which one comes back here.
    pub(super) fn record_href(&self, action: &str, key: &[String]) -> String {
        let mut parameters: Vec<(&str, String)> = key.iter().map(|part| ("key", part.clone())).collect();
        let back = self.query();
        if !back.is_empty() {
            parameters.push(("back", back));
        }
        with_query(self.action(action), &encoded(&parameters))
    }
}

fn with_query(path: String, query: &str) -> String {
    if query.is_empty() {
        path
    } else {
        format!("{path}?{query}")
    }
}

/// A name as a part of a path.
pub(super) fn path_segment(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

/// Parameters as a query, without `?`.
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
