//! Compressed bodies: `Content-Encoding` (RFC 9110, 8.4).

use std::io::Read;

use axum::body::Bytes;
use axum::http::{HeaderMap, header};
use flate2::read::{MultiGzDecoder, ZlibDecoder};

use crate::problem::Problem;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Identity,
    Gzip,
    /// The zlib format (RFC 1950). Despite the name of the coding, it is not raw deflate.
    Deflate,
}

impl Coding {
    /// Reads the compression of a body from the headers of its request.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let mut given = headers.get_all(header::CONTENT_ENCODING).iter();
        let (Some(coding), more) = (given.next(), given.next()) else {
            return Ok(Self::Identity);
        };
        let name = coding.to_str().unwrap_or("?").trim();
        match name.to_ascii_lowercase().as_str() {
            _ if more.is_some() => Err(Problem::unsupported_coding("given twice")),
            "" | "identity" => Ok(Self::Identity),
            "gzip" | "x-gzip" => Ok(Self::Gzip),
            "deflate" => Ok(Self::Deflate),
            _ => Err(Problem::unsupported_coding(name)),
        }
    }

    /// Decompresses a body. Fails if the result would have more than `limit` bytes.
    pub(super) fn undone(self, body: Bytes, limit: u64) -> Result<Bytes, Problem> {
        match self {
            Self::Identity => Ok(body),
            Self::Gzip => inflate(MultiGzDecoder::new(&body[..]), "gzip", limit),
            Self::Deflate => inflate(ZlibDecoder::new(&body[..]), "deflate (zlib)", limit),
        }
    }
}

fn inflate(from: impl Read, name: &str, limit: u64) -> Result<Bytes, Problem> {
    let mut inflated = Vec::new();
    from.take(limit.saturating_add(1))
        .read_to_end(&mut inflated)
        .map_err(|error| Problem::invalid_body(format!("the body is not {name}: {error}")))?;
    if inflated.len() as u64 > limit {
        let detail = format!("the request's body has at most {limit} bytes after decompression");
        return Err(Problem::limit_exceeded(detail).with_hint("split it into several requests"));
    }
    Ok(inflated.into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};

    use super::*;

    const TEXT: &[u8] = b"{\"changes\": []}";

    fn gzip(bytes: &[u8]) -> Bytes {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap().into()
    }

    #[test]
    fn decodes_gzip_and_deflate() {
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
        zlib.write_all(TEXT).unwrap();
        let zlib = Bytes::from(zlib.finish().unwrap());
        assert_eq!(Coding::Gzip.undone(gzip(TEXT), 100).unwrap(), TEXT);
        assert_eq!(Coding::Deflate.undone(zlib, 100).unwrap(), TEXT);
        let two = [gzip(TEXT), gzip(TEXT)].concat();
        assert_eq!(
            Coding::Gzip.undone(two.into(), 100).unwrap(),
            [TEXT, TEXT].concat()
        );
    }

    #[test]
    fn rejects_oversized_and_damaged_bodies() {
        let bomb = gzip(&vec![0; 1 << 20]);
        assert!(bomb.len() < 10_000);
        assert_eq!(Coding::Gzip.undone(bomb.clone(), 1_000).unwrap_err().status, 413);
        assert!(Coding::Gzip.undone(bomb.clone(), 1 << 20).is_ok());
        for damaged in [bomb.slice(..500), Bytes::from_static(TEXT)] {
            assert_eq!(Coding::Gzip.undone(damaged, 1 << 20).unwrap_err().status, 400);
        }
    }
}
