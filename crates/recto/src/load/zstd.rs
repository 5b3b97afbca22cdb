//! Reading of .zst files, in builds with the feature `full`.

use std::io::{self, BufRead, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Returns a reader of the unpacked text of a .zst file.
///
/// # Errors
/// Never. In a build without the feature `full`, the function of the same name rejects all .zst
/// files.
#[expect(
    clippy::unnecessary_wraps,
    reason = "the build without .zst files has the same function"
)]
pub(super) fn reader<R: BufRead>(source: R) -> io::Result<ZstdReader<R>> {
    Ok(ZstdReader::new(source))
}

/// Reader of the unpacked text of consecutive Zstandard frames (RFC 8878). It verifies the
/// checksums of the frames.
pub(super) struct ZstdReader<R> {
    source: R,
    decoder: FrameDecoder,
    in_frame: bool,
}

impl<R: BufRead> ZstdReader<R> {
    fn new(source: R) -> Self {
        Self {
            source,
            decoder: FrameDecoder::new(),
            in_frame: false,
        }
    }

    fn begin_frame(&mut self) -> io::Result<()> {
        match self.decoder.init(&mut self.source) {
            Ok(()) => self.in_frame = true,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length, ..
            })) => {
                let skipped = io::copy(&mut self.source.by_ref().take(length.into()), &mut io::sink())?;
                if skipped < length.into() {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Err(error) => return Err(io::Error::other(error)),
        }
        Ok(())
    }

    fn end_frame(&mut self) -> io::Result<()> {
        self.in_frame = false;
        match (
            self.decoder.get_checksum_from_data(),
            self.decoder.get_calculated_checksum(),
        ) {
            (Some(written), Some(found)) if written != found => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the checksum of a frame does not match",
            )),
            _ => Ok(()),
        }
    }
}

impl<R: BufRead> Read for ZstdReader<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.in_frame {
                if self.source.fill_buf()?.is_empty() {
                    return Ok(0);
                }
                self.begin_frame()?;
            } else if self.decoder.can_collect() > 0 {
                return self.decoder.read(bytes);
            } else if self.decoder.is_finished() {
                self.end_frame()?;
            } else {
                self.decoder
                    .decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(io::Error::other)?;
            }
        }
    }
}
