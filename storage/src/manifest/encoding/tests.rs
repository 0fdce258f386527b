//! Tests of the encoding of a manifest, of today's and development formats: whole, damaged and
//! too new.

use super::super::tests::good;
use super::*;

fn decoded(bytes: &[u8]) -> Result<(Manifest, u32)> {
    decode(Path::new("m"), bytes)
}

fn encoded() -> Vec<u8> {
    encode(&good()).expect("encodes").0
}

/// Returns the good manifest as a development version wrote it.
fn of_development(version: u32) -> Vec<u8> {
    let body = serde_json::to_vec(&good()).expect("plain data");
    let head = Layout::Development(version).head_line(&body);
    [head.as_bytes(), b"\n", &body].concat()
}

/// Replaces `from` by `to` in the head line before the same body.
fn with_head(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    let end = bytes.iter().position(|b| *b == b'\n').expect("a head");
    let head = String::from_utf8(bytes[..end].to_vec()).expect("text");
    assert!(head.contains(from), "{head}");
    [head.replacen(from, to, 1).as_bytes(), &bytes[end..]].concat()
}

#[test]
fn a_manifest_comes_back_as_it_was() {
    let (bytes, crc) = encode(&good()).expect("encodes");
    let (back, back_crc) = decoded(&bytes).expect("decodes");
    assert_eq!((back, back_crc), (good(), crc));
    assert!(bytes.starts_with(b"logmill store 1 "));
}

#[test]
fn development_versions_are_read_and_written_as_today() {
    for version in [1, 2] {
        let (back, crc) = decoded(&of_development(version)).expect("decodes");
        assert_eq!(back, good());
        let body = serde_json::to_vec(&good()).expect("plain data");
        assert_eq!(crc, crc32c::crc32c(&body), "what the next version names");
        assert_eq!(encode(&back).expect("encodes").0, encoded());
    }
}

#[test]
fn any_flipped_byte_is_refused() {
    for bytes in [encoded(), of_development(2)] {
        for at in 0..bytes.len() {
            for flip in [0x01, 0x02, 0x10, 0x20, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                assert!(decoded(&damaged).is_err(), "byte {at} ^ {flip:#x}");
            }
            assert!(decoded(&bytes[..at]).is_err(), "cut at {at}");
        }
    }
    // The head line is compared letter for letter.
    for (from, to) in [
        ("store 1 ", "store 0 "),
        ("store 1 ", "store +1 "),
        ("store 1 ", "store 01 "),
        ("store 1 ", "manifest 1 "),
    ] {
        let damaged = with_head(&encoded(), from, to);
        assert!(
            matches!(decoded(&damaged), Err(Error::Corrupt { .. })),
            "{to}"
        );
    }
}

#[test]
fn a_newer_format_is_named() {
    let newer = with_head(&encoded(), "store 1 ", "store 2 ");
    for refused in [
        decoded(&newer).map(|_| ()),
        refuse_newer(Path::new("m"), &newer),
    ] {
        match refused {
            Err(Error::FormatTooNew {
                found: 2, known: 1, ..
            }) => {}
            other => panic!("{other:?}"),
        }
    }
    // The body, and even the last words of the head line, may be of an unknown form.
    assert!(refuse_newer(Path::new("m"), b"logmill store 7 x y\n?").is_err());
    refuse_newer(Path::new("m"), &encoded()).expect("ours");
    let unheard_of = with_head(&of_development(2), "manifest 2 ", "manifest 3 ");
    assert!(matches!(decoded(&unheard_of), Err(Error::Corrupt { .. })));
}

#[test]
fn a_body_that_grows_without_bound_is_refused() {
    let body = zstd::bulk::compress(&vec![b' '; JSON_BYTES_MAX as usize + 1], 1);
    let body = body.expect("compresses");
    let head = Layout::Store(FORMAT).head_line(&body);
    let bytes = [head.as_bytes(), b"\n", &body].concat();
    let error = decoded(&bytes).expect_err("too long").to_string();
    assert!(error.contains("more than 268435456 bytes"), "{error}");
}
