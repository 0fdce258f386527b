//! Compressed bodies and sources.

use std::io::{Read, Write};

use super::choices;
use crate::error::Error;
use crate::source::{Compression, Encoding, decompress};

/// Decompressed bytes up to which a source is read.
const SOURCE_BYTES: u64 = 1 << 20;
/// The largest limit of a body.
const LIMIT: usize = 1 << 20;

/// Decompresses a body: the first byte is its encoding, and whether the rest is to be compressed
/// before; the next two are the limit. The result stays within its limit, is the same under any
/// limit that allows it, and is refused by one byte less.
pub fn bodies(bytes: &[u8]) {
    let ([how, low, high], rest) = choices(bytes);
    let all = [
        Encoding::Gzip,
        Encoding::Zstd,
        Encoding::Deflate,
        Encoding::Snappy,
    ];
    let encoding = all[usize::from(how) % all.len()];
    let is_packed = how & 4 != 0;
    let body = if is_packed {
        pack(encoding, rest)
    } else {
        rest.to_vec()
    };
    let limit = usize::from(u16::from_le_bytes([low, high]));
    let found = encoding.decompress(&body, limit);
    match (&found, encoding.decompress(&body, LIMIT)) {
        (Ok(out), again) => {
            assert!(out.len() <= limit);
            assert_eq!(&again.expect("it fits a larger limit"), out);
            let exact = encoding.decompress(&body, out.len());
            assert_eq!(&exact.expect("it fits its own length"), out);
            if let Some(less) = out.len().checked_sub(1) {
                let refused = encoding.decompress(&body, less);
                assert!(matches!(refused, Err(Error::Expands { .. })), "{refused:?}");
            }
        }
        (Err(Error::Expands { .. }), Ok(out)) => assert!(out.len() > limit),
        (Err(Error::BadBody { .. } | Error::Window { .. }), again) => assert!(again.is_err()),
        (Err(error), Err(_)) => assert!(matches!(error, Error::Expands { .. })),
        (Err(error), Ok(_)) => panic!("{error}"),
    }
    if is_packed {
        let out = encoding
            .decompress(&body, LIMIT)
            .expect("it was compressed here");
        assert_eq!(out, rest);
    } else {
        source(rest);
    }
}

/// Reads a source that names its compression by its first bytes.
fn source(bytes: &[u8]) {
    let compression = Compression::of_bytes(bytes);
    let Ok(reader) = decompress(bytes, compression) else {
        return;
    };
    let mut out = Vec::new();
    let read = reader.take(SOURCE_BYTES).read_to_end(&mut out);
    if compression == Compression::None {
        read.expect("bytes in memory");
        assert_eq!(out, as_utf_8(bytes));
    }
}

/// Returns the bytes as a source has them, by the decoder of the standard library.
fn as_utf_8(bytes: &[u8]) -> Vec<u8> {
    let unit: fn([u8; 2]) -> u16 = match bytes {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => return bytes.to_vec(),
    };
    let pairs = bytes[2..].chunks_exact(2);
    let odd = pairs
        .remainder()
        .iter()
        .map(|_| char::REPLACEMENT_CHARACTER);
    let units: Vec<u16> = pairs.clone().map(|pair| unit([pair[0], pair[1]])).collect();
    let text: String = String::from_utf16_lossy(&units)
        .chars()
        .chain(odd)
        .collect();
    text.into_bytes()
}

fn pack(encoding: Encoding, bytes: &[u8]) -> Vec<u8> {
    let level = flate2::Compression::fast();
    let packed = match encoding {
        Encoding::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(bytes).and_then(|()| encoder.finish())
        }
        Encoding::Deflate => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
            encoder.write_all(bytes).and_then(|()| encoder.finish())
        }
        Encoding::Zstd => zstd::encode_all(bytes, 1),
        Encoding::Snappy => {
            let packed = snap::raw::Encoder::new().compress_vec(bytes);
            packed.map_err(std::io::Error::other)
        }
    };
    packed.expect("compressed in memory")
}
