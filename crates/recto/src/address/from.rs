//! Conversions of texts, paths and references to [`StoreAddress`].

use std::path::{Path, PathBuf};

use super::StoreAddress;
use crate::error::Error;

impl TryFrom<&str> for StoreAddress {
    type Error = Error;

    fn try_from(text: &str) -> Result<Self, Error> {
        text.parse()
    }
}

impl TryFrom<&String> for StoreAddress {
    type Error = Error;

    fn try_from(text: &String) -> Result<Self, Error> {
        text.parse()
    }
}

impl TryFrom<String> for StoreAddress {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

/// Converts a path to the address of a folder, even if the path looks like another kind of address.
impl From<PathBuf> for StoreAddress {
    fn from(folder: PathBuf) -> Self {
        Self::Embedded(folder)
    }
}

/// Converts a path to the address of a folder, even if the path looks like another kind of address.
impl From<&PathBuf> for StoreAddress {
    fn from(folder: &PathBuf) -> Self {
        Self::Embedded(folder.clone())
    }
}

/// Converts a path to the address of a folder, even if the path looks like another kind of address.
impl From<&Path> for StoreAddress {
    fn from(folder: &Path) -> Self {
        Self::Embedded(folder.to_owned())
    }
}

impl From<&StoreAddress> for StoreAddress {
    fn from(address: &StoreAddress) -> Self {
        address.clone()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_folder_and_text_is_what_it_says() {
        let path = Path::new("cassandra://h/ks");
        assert_eq!(StoreAddress::from(path), StoreAddress::Embedded(path.to_owned()));
        let text = StoreAddress::try_from("cassandra://h/ks").unwrap();
        assert!(matches!(text, StoreAddress::Cassandra(_)));
        assert_eq!(StoreAddress::from(&text), text);
        assert!(StoreAddress::try_from(String::new()).is_err());
    }
}
