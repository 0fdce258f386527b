use std::io::Write;

use super::*;

fn compressed(encoding: Encoding, bytes: &[u8]) -> Vec<u8> {
    let level = flate2::Compression::default();
    match encoding {
        Encoding::Gzip => {
            let mut writer = flate2::write::GzEncoder::new(Vec::new(), level);
            writer.write_all(bytes).unwrap();
            writer.finish().unwrap()
        }
        Encoding::Deflate => {
            let mut writer = flate2::write::ZlibEncoder::new(Vec::new(), level);
            writer.write_all(bytes).unwrap();
            writer.finish().unwrap()
        }
        Encoding::Zstd => zstd::encode_all(bytes, 3).unwrap(),
        Encoding::Snappy => snap::raw::Encoder::new().compress_vec(bytes).unwrap(),
    }
}

const ALL: [Encoding; 4] = [
    Encoding::Gzip,
    Encoding::Zstd,
    Encoding::Deflate,
    Encoding::Snappy,
];

/// Returns bytes that do not compress.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

#[test]
fn every_encoding_returns_the_bytes_up_to_the_limit_and_no_byte_more() {
    let bytes = noise(1 << 20);
    for encoding in ALL {
        assert_eq!(Encoding::of_name(encoding.name()), Some(encoding));
        let body = compressed(encoding, &bytes);
        let whole = encoding.decompress(&body, bytes.len()).unwrap();
        assert!(whole == bytes, "{encoding:?}");
        let refused = encoding.decompress(&body, bytes.len() - 1).unwrap_err();
        let text = refused.to_string();
        assert!(
            text.contains("more than 1048575 bytes"),
            "{encoding:?}: {text}"
        );
        let broken = encoding.decompress(&body[..body.len() / 2], usize::MAX);
        let text = broken.unwrap_err().to_string();
        assert!(
            text.starts_with(&format!("the body is not {}", encoding.name())),
            "{text}"
        );
    }
}

#[test]
fn equal_lines_may_compress_well_and_a_bomb_may_not() {
    for encoding in ALL {
        let lines = vec![b'\n'; RATIO_FROM];
        let body = compressed(encoding, &lines);
        assert_eq!(
            encoding.decompress(&body, usize::MAX).unwrap().len(),
            RATIO_FROM
        );
        if encoding == Encoding::Snappy {
            // A block of snappy has at least 1 byte for 64.
            continue;
        }
        let body = compressed(encoding, &vec![0; 64 << 20]);
        let text = encoding
            .decompress(&body, usize::MAX)
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("expands more than 100 times"),
            "{encoding:?}: {text}"
        );
    }
}

#[test]
fn a_block_that_announces_more_than_the_limit_is_refused_before_any_memory_is_taken() {
    // The length, 2^32 - 1 as a variable-length number, and nothing behind it.
    let body = [0xff, 0xff, 0xff, 0xff, 0x0f];
    let text = Encoding::Snappy.decompress(&body, 1 << 20).unwrap_err();
    assert!(
        text.to_string().contains("more than 1048576 bytes"),
        "{text}"
    );
}

#[test]
fn a_window_larger_than_any_body_is_refused() {
    let mut writer = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
    writer.window_log(27).unwrap();
    writer.write_all(b"line\n").unwrap();
    let body = writer.finish().unwrap();
    let text = Encoding::Zstd.decompress(&body, 1 << 20).unwrap_err();
    assert!(
        text.to_string().starts_with("the body is not zstd"),
        "{text}"
    );
}

#[test]
fn a_slow_body_is_given_up() {
    let slow = std::io::repeat(b'a').take(4 << 20);
    let stopped = read_within(slow, usize::MAX, Duration::ZERO);
    assert!(matches!(stopped, Err(Stopped::Time)));
}
