//! Tests of the texts of counters; their documents are tested end to end, in `tests/it/mongo`.

use bson::oid::ObjectId;
use bson::{DateTime, doc};

use super::*;

#[test]
fn each_id_has_a_text_of_its_own_and_is_read_back() {
    let ids: [Bson; 10] = [
        "20001010/site-1/index.html".into(),
        "".into(),
        "{\"_id\":{\"$numberInt\":\"1\"}}".into(),
        "\"quoted\"".into(),
        1.into(),
        Bson::Int64(1 << 40),
        0.5.into(),
        ObjectId::from_bytes([7; 12]).into(),
        DateTime::from_millis(5).into(),
        Bson::Document(doc! { "d": { "m": null, "n": 1.5 }, "u": "rick" }),
    ];
    let texts: Vec<String> = ids.iter().map(counter_text).collect();
    for (id, text) in ids.iter().zip(&texts) {
        assert_eq!(&counter_id(text), id, "{text}");
    }
    let distinct: std::collections::HashSet<_> = texts.iter().collect();
    assert_eq!(distinct.len(), ids.len());
    // Numbers that are equal are one `_id`.
    assert_eq!(counter_text(&Bson::Int64(1)), texts[4]);
    assert_eq!(counter_text(&Bson::Double(1.0)), texts[4]);
    let turned = doc! { "u": "rick", "d": { "n": 1.5, "m": null } };
    assert_eq!(counter_text(&turned.into()), texts[9]);
    assert!(ids.iter().all(is_counter_id));
    for id in [
        Bson::Array(vec![1.into()]),
        Bson::Double(f64::NAN),
        Bson::MinKey,
    ] {
        assert!(!is_counter_id(&id), "{id}");
    }
}
