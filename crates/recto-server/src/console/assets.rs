//! Files of the web console: style sheet, scripts and icon. They are part of the binary.

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

/// File of the web console that the server sends to browsers.
#[derive(Debug)]
struct Asset {
    name: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

static ASSETS: [Asset; 5] = [
    Asset {
        name: "console.css",
        content_type: "text/css; charset=utf-8",
        bytes: include_bytes!("../../assets/console/console.css"),
    },
    Asset {
        name: "console.js",
        content_type: SCRIPT,
        bytes: include_bytes!("../../assets/console/console.js"),
    },
    Asset {
        name: "htmx.js",
        content_type: SCRIPT,
        bytes: include_bytes!("../../assets/console/htmx-2.0.11.min.js"),
    },
    Asset {
        name: "htmx-license.txt",
        content_type: "text/plain; charset=utf-8",
        bytes: include_bytes!("../../assets/console/htmx-LICENSE.txt"),
    },
    Asset {
        name: "icon.svg",
        content_type: "image/svg+xml",
        bytes: include_bytes!("../../assets/console/icon.svg"),
    },
];

/// Returns the address of a console file. The address changes with the file's content, so browsers
/// may cache the file forever.
pub(crate) fn href(name: &str) -> String {
    let version = ASSETS
        .iter()
        .find(|asset| asset.name == name)
        .map_or(0, Asset::version);
    format!("/assets/{name}?v={version:016x}")
}

impl Asset {
    /// Returns a hash (FNV-1a) of the file's content, which differs between releases if the file
    /// does.
    fn version(&self) -> u64 {
        self.bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }
}

/// Handles `GET /assets/{name}`: returns a file of the console.
pub(super) async fn get(Path(name): Path<String>) -> Response {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let headers = [
        (header::CONTENT_TYPE, asset.content_type),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    (headers, asset.bytes).into_response()
}
