use serde_json::{Value, json};

use super::*;
use crate::fuzzing::tests::replay::replay;

#[test]
fn messages_are_refused_or_become_records() {
    replay("fluent_message", fuzzing::fluent_message);
}

/// Text of at most 31 bytes.
fn text(text: &str) -> Vec<u8> {
    let mut bytes = vec![0xa0 | u8::try_from(text.len()).unwrap()];
    bytes.extend(text.as_bytes());
    bytes
}

/// A time as an `EventTime`: 0x6a0f45da seconds.
const EVENT_TIME: [u8; 10] = [0xd7, 0, 0x6a, 0x0f, 0x45, 0xda, 0x1d, 0xcd, 0x65, 0];
const TIME: &str = "2026-05-21T17:50:18.500Z";

fn record() -> Vec<u8> {
    [&[0x81][..], &text("k"), &[7]].concat()
}

fn records(message: &Message<'_>) -> Vec<Value> {
    let mut records = Vec::new();
    let mut push = |line: &[u8]| {
        let object = serde_json::from_slice(line);
        records.push(object.unwrap_or_else(|_| json!(line)));
        true
    };
    match message.entries {
        Entries::Packed(packed) => push_packed(message.tag, packed, &mut push),
        Entries::Single(pair) => push_single(message.tag, pair, &mut push),
        Entries::Compressed(_) => panic!("compressed"),
    }
    records
}

#[test]
fn each_mode_is_read() {
    let entry = [&[0x92][..], &EVENT_TIME, &record()].concat();
    let packed = [&entry[..], &entry].concat();
    let option = [
        &[0x82][..],
        &text("chunk"),
        &text("p8n9gmxTQVC8/nh2wlKKeQ=="),
        &text("size"),
        &[2],
    ]
    .concat();
    let single = [&[0x93][..], &text("a.b"), &EVENT_TIME, &record()].concat();
    let forward = [&[0x93][..], &text("a.b"), &[0x92], &packed, &option].concat();
    let length = u8::try_from(packed.len()).unwrap();
    let in_bytes = [&[0x93][..], &text("a.b"), &[0xc4, length], &packed, &option].concat();
    let in_text = [&[0x92][..], &text("a.b"), &[0xd9, length], &packed].concat();
    let event = json!({ "time": TIME, "tag": "a.b", "k": 7 });
    for (bytes, count, is_acknowledged) in [
        (&single, 1, false),
        (&forward, 2, true),
        (&in_bytes, 2, true),
        (&in_text, 2, false),
    ] {
        let message = read(bytes).unwrap().unwrap();
        assert_eq!(records(&message), vec![event.clone(); count]);
        assert_eq!(message.chunk.is_some(), is_acknowledged);
    }
    let message = read(&in_bytes).unwrap().unwrap();
    assert_eq!(message.chunk, Some("p8n9gmxTQVC8/nh2wlKKeQ=="));
    let option = [&[0x81][..], &text("compressed"), &text("gzip")].concat();
    let compressed = [&[0x93][..], &text("a.b"), &[0xc4, 3, 1, 2, 3], &option].concat();
    let message = read(&compressed).unwrap().unwrap();
    assert_eq!(message.entries, Entries::Compressed(&[1, 2, 3]));
    assert_eq!(read(&[0xc0]), Ok(None));
}

#[test]
fn values_of_a_record_are_those_of_json() {
    let members: [(&str, Vec<u8>, Value); 12] = [
        ("a", vec![0xc0], Value::Null),
        ("b", vec![0xc3], json!(true)),
        (
            "c",
            vec![0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            json!(u64::MAX),
        ),
        ("d", vec![0xd0, 0x80], json!(-128)),
        ("e", vec![0xca, 0x3d, 0xcc, 0xcc, 0xcd], json!(0.1)),
        ("f", vec![0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0], json!("NaN")),
        ("g", text("ü\"\n"), json!("ü\"\n")),
        ("h", vec![0xc4, 2, 0xff, 0xfe], json!("//4=")),
        ("i", vec![0xc4, 1, b'x'], json!("x")),
        (
            "j",
            [&[0x92, 1][..], &[0x81, 5, 6]].concat(),
            json!([1, { "5": 6 }]),
        ),
        ("time", text("its own"), json!("its own")),
        ("k", EVENT_TIME.to_vec(), json!(TIME)),
    ];
    let mut bytes = [
        &[0x93][..],
        &text("t"),
        &[0xce, 0x6a, 0x0f, 0x45, 0xda, 0x8c],
    ]
    .concat();
    let mut expected = json!({ "time": "2026-05-21T17:50:18Z", "tag": "t" });
    for (name, value, json) in members {
        bytes.extend(text(name));
        bytes.extend(value);
        let name = if name == "time" { "record.time" } else { name };
        expected[name] = json;
    }
    let message = read(&bytes).unwrap().unwrap();
    assert_eq!(records(&message), [expected]);
}

#[test]
fn an_entry_that_is_no_event_is_a_record_of_its_bytes() {
    let good = [&[0x92][..], &EVENT_TIME, &record()].concat();
    let deep = [&[0x92, 1, 0x81][..], &text("k"), &[0x91; 200], &[1]].concat();
    for bad in [
        vec![1],
        vec![0x92, 1, 2],
        vec![0x93, 1, 0x80, 3],
        [&[0x92][..], &text("now"), &record()].concat(),
        deep,
    ] {
        let packed = [&good[..], &bad, &good].concat();
        let mut records = Vec::new();
        push_packed("t", &packed, &mut |record| {
            records.push(record.to_vec());
            true
        });
        assert_eq!(records.len(), 3, "{bad:x?}");
        assert_eq!(records[1], bad);
        assert_eq!(records[0], records[2]);
    }
    let mut records = Vec::new();
    push_packed("t", &[&good[..], &[0x92, 1]].concat(), &mut |r| {
        records.push(r.to_vec());
        true
    });
    assert_eq!(records[1..], [vec![0x92, 1]]);
    // Entries behind a limit are not read: a few bytes can be millions of them.
    let mut pushed = 0;
    push_packed("t", &good.repeat(9), &mut |_| {
        pushed += 1;
        pushed < 2
    });
    assert_eq!(pushed, 2);
}

#[test]
fn bytes_of_another_protocol_are_refused() {
    for bytes in [
        b"GET / HTTP/1.1".to_vec(),
        vec![0x91, 0xa1, b't'],
        [&[0x93, 7, 7][..], &record()].concat(),
        [&[0x92][..], &text("t"), &[7]].concat(),
        [&[0x93][..], &text("t"), &[0x90], &[7]].concat(),
        [&[0x94][..], &text("t"), &[0x90, 0x80, 0x80]].concat(),
        [&[0x92][..], &text("t"), &[0x90, 0x80]].concat(),
    ] {
        assert_eq!(read(&bytes), Err(Unreadable::Malformed), "{bytes:x?}");
    }
}
