//! Tests of the encoding of a manifest: whole, damaged, too new, and of development versions.

use super::super::tests::good;
use super::*;

fn decoded(bytes: &[u8]) -> Result<(Manifest, u32)> {
    decode(Path::new("m"), bytes)
}

fn encoded() -> Vec<u8> {
    encode(&good()).expect("encodes").0
}

/// Returns the good manifest with one more value, and valid checksums.
fn with_value(change: impl FnOnce(&mut serde_json::Value)) -> Vec<u8> {
    let mut json = serde_json::to_value(good()).expect("plain data");
    change(&mut json);
    let body = zstd::bulk::compress(json.to_string().as_bytes(), 1).expect("compresses");
    [head_line(&body).as_bytes(), b"\n", &body].concat()
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
fn a_development_version_is_named_and_refused() {
    for number in ["1", "2", "3", "-"] {
        let bytes = with_head(&encoded(), "store 1 ", &format!("manifest {number} "));
        let error = decoded(&bytes).expect_err("refused");
        let same = refuse_other_format(Path::new("m"), &bytes).expect_err("refused");
        assert!(matches!(error, Error::FormatUnknown { .. }), "{error}");
        assert_eq!(error.to_string(), same.to_string());
        let text = format!(
            "m was written by a development version of logmill (manifest {number}), whose stores no \
             release reads; import the original logs into a new store"
        );
        assert_eq!(error.to_string(), text);
    }
}

/// A program that rewrites a manifest without a field that it does not know would lose it.
#[test]
fn a_field_or_value_of_a_newer_program_is_refused_wherever_it_is() {
    type Change = fn(&mut serde_json::Value);
    let cases: [(&str, Change); 7] = [
        ("field `x`", |m| m["x"] = 1.into()),
        ("field `x`", |m| m["parts"][0]["x"] = 1.into()),
        ("field `x`", |m| m["parts"][0]["file"]["x"] = 1.into()),
        ("field `x`", |m| {
            m["tiles"][0]["files"][0]["sections"][0]["x"] = 1.into()
        }),
        ("field `x`", |m| m["rollups"][0]["x"] = 1.into()),
        ("field `x`", |m| m["pending"][0]["x"] = 1.into()),
        ("variant `fog`", |m| {
            m["streams"]["events"]["kind"] = "fog".into()
        }),
    ];
    for (what, change) in cases {
        let bytes = with_value(change);
        let error = decoded(&bytes).expect_err("refused");
        assert!(matches!(error, Error::FormatUnknown { .. }), "{error}");
        let text = format!(
            "m has a part that this program does not know, unknown {what}; use a newer logmill"
        );
        assert_eq!(error.to_string(), text);
        assert!(refuse_other_format(Path::new("m"), &bytes).is_err());
    }
}

#[test]
fn the_fields_of_a_cluster_are_kept_checked_and_absent_on_a_local_disk() {
    let local = serde_json::to_value(good()).expect("plain data");
    for field in ["shard", "journal", "commit"] {
        assert!(local.get(field).is_none(), "{field}");
    }
    let nonce = "00112233445566778899aabbccddeeff";
    let bytes = with_value(|m| {
        m["shard"] = 0x0123.into();
        m["commit"] = nonce.into();
    });
    let (read, _) = decoded(&bytes).expect("decodes");
    assert_eq!(read.id_prefix()[4..], 0x0123_u16.to_be_bytes());
    assert_eq!(
        (read.shard, read.commit.as_deref()),
        (Some(0x0123), Some(nonce))
    );
    let (bytes, _) = encode(&read).expect("encodes");
    assert_eq!(decoded(&bytes).expect("decodes").0, read);
    let refused = |change: fn(&mut serde_json::Value)| {
        decoded(&with_value(change))
            .expect_err("refused")
            .to_string()
    };
    let error = refused(|m| m["shard"] = 0x0124.into());
    assert!(error.contains("it is shard 292"), "{error}");
    let error = refused(|m| m["commit"] = "1".into());
    assert!(error.contains("is not the nonce"), "{error}");
    let error = refused(|m| {
        m["journal"] = serde_json::json!({
            "cluster": "c", "topic": "t", "partition": 3,
            "position": {"next_offset": 17, "next_seq": 1_u64 << 40, "epoch": 1, "number": 2, "crc": 3},
        });
    });
    assert!(error.contains("its journal is sealed up to"), "{error}");
}

#[test]
fn any_flipped_byte_is_refused() {
    let bytes = encoded();
    for at in 0..bytes.len() {
        for flip in [0x01, 0x02, 0x10, 0x20, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            assert!(decoded(&damaged).is_err(), "byte {at} ^ {flip:#x}");
        }
        assert!(decoded(&bytes[..at]).is_err(), "cut at {at}");
    }
    // The head line is compared letter for letter.
    for (from, to) in [
        ("store 1 ", "store 0 "),
        ("store 1 ", "store +1 "),
        ("store 1 ", "store 01 "),
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
        refuse_other_format(Path::new("m"), &newer),
    ] {
        match refused {
            Err(Error::FormatTooNew {
                found: 2, known: 1, ..
            }) => {}
            other => panic!("{other:?}"),
        }
    }
    // The body, and even the last words of the head line, may be of an unknown form.
    assert!(refuse_other_format(Path::new("m"), b"logmill store 7 x y\n?").is_err());
    refuse_other_format(Path::new("m"), &encoded()).expect("ours");
}

#[test]
fn a_body_that_grows_without_bound_is_refused() {
    let body = zstd::bulk::compress(&vec![b' '; JSON_BYTES_MAX as usize + 1], 1);
    let body = body.expect("compresses");
    let head = head_line(&body);
    let bytes = [head.as_bytes(), b"\n", &body].concat();
    let error = decoded(&bytes).expect_err("too long").to_string();
    assert!(error.contains("exceeds 268435456 bytes"), "{error}");
}
