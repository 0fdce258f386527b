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
    let check = b"203.0.113.9 - - [10/Oct/2000:13:55:36 -0700] \"GET /health HTTP/1.1\" 200 2 \"-\" \"probe\"\n";
    let lines = check.repeat((20 << 20) / check.len());
    for encoding in ALL {
        let body = compressed(encoding, &lines);
        let whole = encoding.decompress(&body, RATIO_FROM).unwrap();
        assert!(whole == lines, "{encoding:?}");
    }
    let bomb = compressed(Encoding::Zstd, &vec![0; 64 << 20]);
    let refused = Encoding::Zstd.decompress(&bomb, usize::MAX).unwrap_err();
    assert!(matches!(refused, Error::Ratio { .. }), "{refused}");
    let refused = Encoding::Zstd.decompress(&bomb, RATIO_FROM).unwrap_err();
    assert!(matches!(refused, Error::Expands { .. }), "{refused}");
    // No gzip expands more than 1,032 times.
    let zeros = compressed(Encoding::Gzip, &vec![0; 64 << 20]);
    let whole = Encoding::Gzip.decompress(&zeros, 64 << 20).unwrap();
    assert_eq!(whole.len(), 64 << 20);
}

#[test]
fn everything_behind_the_end_of_a_body_is_read_or_refused() {
    let (one, two) = (&b"the first line\n"[..], &b"the second line\n"[..]);
    for encoding in ALL {
        let first = compressed(encoding, one);
        let both = [&first[..], &compressed(encoding, two)].concat();
        let read = encoding.decompress(&both, 1 << 20);
        // Members of gzip and frames of zstd follow each other; the others have one stream.
        match encoding {
            Encoding::Gzip | Encoding::Zstd => assert_eq!(read.unwrap(), [one, two].concat()),
            Encoding::Deflate | Encoding::Snappy => {
                let text = read.unwrap_err().to_string();
                assert!(text.contains("the body is not"), "{encoding:?}: {text}");
            }
        }
        for garbage in [
            &b"x"[..],
            b"\0",
            b"\n\n\n\n",
            b"garbage that is long enough",
        ] {
            let body = [&first[..], garbage].concat();
            let read = encoding.decompress(&body, 1 << 20);
            let text = read.map(|read| String::from_utf8(read).unwrap());
            let text = text.unwrap_err().to_string();
            assert!(
                text.contains("the body is not"),
                "{encoding:?}, {garbage:?}: {text}"
            );
        }
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
    assert!(matches!(text, Error::Window { mib: 32 }), "{text}");
}

#[test]
fn a_slow_body_is_given_up() {
    let slow = std::io::repeat(b'a').take(4 << 20);
    let stopped = read_within(
        slow,
        &CountedInput::of(b""),
        None,
        usize::MAX,
        Instant::now(),
    );
    assert!(matches!(stopped, Err(Stopped::Time)));
    let slow = std::io::repeat(b'a').take(4 << 20);
    let stopped = count_within(slow, 0, usize::MAX, Instant::now());
    assert!(matches!(stopped, Err(Stopped::Time)));
}

#[test]
fn a_dense_body_is_counted_first_and_has_the_same_limit_and_the_same_errors() {
    let lines = b"one line, and the same again\n".repeat(100_000);
    for encoding in ALL {
        let body = compressed(encoding, &lines);
        let whole = encoding.decompress(&body, lines.len()).unwrap();
        assert!(whole == lines, "{encoding:?}");
        let refused = encoding.decompress(&body, lines.len() - 1).unwrap_err();
        assert!(matches!(refused, Error::Expands { .. }), "{refused}");
        for broken in [&body[..body.len() - 3], &[&body[..], b"behind"].concat()] {
            let refused = encoding.decompress(broken, lines.len()).unwrap_err();
            assert!(matches!(refused, Error::BadBody { .. }), "{refused}");
        }
    }
    // It is one: its bytes are counted, and nothing of them is kept.
    let body = compressed(Encoding::Zstd, &lines);
    let taken = CountedInput::of(&body);
    let reader = Encoding::Zstd.reader(&taken).ok().unwrap();
    let until = Instant::now() + TIME_MAX;
    let read = read_within(reader, &taken, None, usize::MAX, until);
    assert!(matches!(read, Ok(Decompressed::Counted(len)) if len == lines.len()));
}
