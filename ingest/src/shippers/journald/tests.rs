use proptest::prelude::*;
use serde_json::{Value, json};

use super::{ExportDecoder, FIELDS_MAX, InvalidExport, JOURNAL_ENTRY_BYTES_MAX, JournalEntry};

fn decoded(pieces: &[&[u8]]) -> (Vec<JournalEntry>, Result<(), InvalidExport>) {
    let (mut decoder, mut entries) = (ExportDecoder::default(), Vec::new());
    let mut push = |entry| entries.push(entry);
    let taken = pieces
        .iter()
        .try_for_each(|piece| decoder.take(piece, &mut push));
    let outcome = taken.and_then(|()| decoder.finish(&mut push));
    (entries, outcome)
}

fn binary(name: &str, value: &[u8]) -> Vec<u8> {
    let size = (value.len() as u64).to_le_bytes();
    [name.as_bytes(), b"\n", &size, value, b"\n"].concat()
}

#[test]
fn entries_become_the_objects_of_journalctl() {
    let export = [
        b"__CURSOR=s=ab;i=1\n__REALTIME_TIMESTAMP=1700000000000000\nMESSAGE=a=b\n".to_vec(),
        binary("DETAIL", b"two\nlines"),
        binary("RAW", b"\xff\x00"),
        b"TAG=a\nTAG=b\nTAG=c\n\n\nMESSAGE=\n".to_vec(),
        binary("RAW", b"\xff"),
        binary("RAW", b"\xfe"),
        binary("RAW", b""),
    ]
    .concat();
    let (entries, outcome) = decoded(&[&export]);
    assert_eq!(outcome, Ok(()));
    let objects: Vec<Value> = entries
        .iter()
        .map(|entry| serde_json::from_slice(&entry.json).expect("JSON"))
        .collect();
    assert_eq!(
        objects,
        [
            json!({
                "__CURSOR": "s=ab;i=1", "__REALTIME_TIMESTAMP": "1700000000000000",
                "MESSAGE": "a=b", "DETAIL": "two\nlines", "RAW": [255, 0], "TAG": ["a", "b", "c"],
            }),
            json!({ "MESSAGE": "", "RAW": [[255], [254], ""] }),
        ]
    );
    assert_eq!(entries[0].cursor.as_deref(), Some("s=ab;i=1"));
    assert_eq!(entries[1].cursor, None);
}

#[test]
fn bytes_that_are_no_export_are_refused() {
    let mut wrong = binary("A", b"abc");
    wrong[2] = 2;
    assert_eq!(decoded(&[&wrong]).1, Err(InvalidExport::Length));
    for unfinished in [
        "MESSAGE=a",
        "MESSAGE",
        "MESSAGE\n\x01\0\0\0\0\0\0\0",
        "A=b\n\nB",
    ] {
        let (_, outcome) = decoded(&[unfinished.as_bytes()]);
        assert_eq!(outcome, Err(InvalidExport::Unfinished), "{unfinished:?}");
    }
}

#[test]
fn an_entry_that_is_too_long_keeps_its_beginning() {
    let value = vec![b'x'; JOURNAL_ENTRY_BYTES_MAX];
    let export = [
        b"A=1\n".to_vec(),
        binary("B", &value),
        b"\nA=2\n\n".to_vec(),
    ]
    .concat();
    let pieces: Vec<&[u8]> = export.chunks(1 << 16).collect();
    let (entries, outcome) = decoded(&pieces);
    assert_eq!(outcome, Ok(()));
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[0].json, export[..=JOURNAL_ENTRY_BYTES_MAX]);
    assert_eq!(entries[1].json, br#"{"A":"2"}"#);
}

#[test]
fn entries_of_which_the_object_is_too_long_stay_as_they_came() {
    let bytes = binary("B", &vec![0xff; JOURNAL_ENTRY_BYTES_MAX / 3]);
    let escaped = binary("B", &vec![1; JOURNAL_ENTRY_BYTES_MAX / 3]);
    let many = "A=\n".repeat(FIELDS_MAX + 1).into_bytes();
    for entry in [bytes, escaped, many] {
        let (entries, outcome) = decoded(&[&entry, b"\nA=2\n\n"]);
        assert_eq!(outcome, Ok(()));
        assert_eq!(entries[0].json, entry);
        assert_eq!(entries[1].json, br#"{"A":"2"}"#);
    }
}

proptest! {
    #[test]
    fn pieces_change_nothing(
        fields in prop::collection::vec(
            ("[A-C]", prop::option::of(prop::collection::vec(any::<u8>(), 0..5)), "[a-c=]{0,3}", any::<bool>()),
            0..12,
        ),
        cuts in prop::collection::vec(0_usize..200, 0..6),
    ) {
        let mut export = Vec::new();
        let mut expected = Vec::new();
        let mut names = Vec::new();
        for (name, bytes, text, ends) in &fields {
            match bytes {
                Some(bytes) => export.extend(binary(name, bytes)),
                None => export.extend(format!("{name}={text}\n").into_bytes()),
            }
            names.push(name.clone());
            if *ends {
                export.push(b'\n');
                expected.push(std::mem::take(&mut names));
            }
        }
        if !names.is_empty() {
            expected.push(names);
        }
        let (whole, outcome) = decoded(&[&export]);
        prop_assert_eq!(outcome, Ok(()));
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (export.len() + 1)).collect();
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for cut in cuts {
            pieces.push(&export[from..cut]);
            from = cut;
        }
        pieces.push(&export[from..]);
        prop_assert_eq!(&decoded(&pieces).0, &whole);
        prop_assert_eq!(whole.len(), expected.len());
        for (entry, names) in whole.iter().zip(&expected) {
            let object: Value = serde_json::from_slice(&entry.json).expect("JSON");
            let object = object.as_object().expect("an object");
            for name in names {
                prop_assert!(object.contains_key(name));
            }
        }
    }

    #[test]
    fn any_bytes_are_taken_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let (_, _) = decoded(&[&bytes]);
    }
}
