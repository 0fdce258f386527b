use proptest::prelude::*;

use super::*;

fn items(text: &str) -> Vec<&str> {
    let items = JsonValues::new(text.as_bytes(), 0).map(|(_, item)| item);
    items.map(|i| std::str::from_utf8(i).unwrap()).collect()
}

#[test]
fn objects_are_found_wherever_they_stand() {
    let a = r#"{"a":"} ] , \" {"}"#;
    let b = "{\n  \"b\": [1, {\"c\": 2}],\n  \"d\": \"\\\\\"\n}";
    for text in [
        format!("[{a},{b}]"),
        format!("[\n  {a},\n  {b}\n]\n"),
        format!("{a}{b}"),
        format!("\u{feff}{a}\n\n{b}\n"),
        format!("[{a}][{b}]"),
    ] {
        assert_eq!(items(&text), [a, b], "{text}");
    }
    assert_eq!(items("[]"), [""; 0]);
    assert_eq!(items(" \n "), [""; 0]);
}

#[test]
fn what_is_no_object_is_an_item_of_its_own() {
    assert_eq!(
        items("[1, \"text\", {\"a\":1}, null, nonsense\n{\"b\":2}"),
        [
            "1",
            "\"text\"",
            "{\"a\":1}",
            "null",
            "nonsense",
            "{\"b\":2}"
        ]
    );
    assert_eq!(items("}{\"a\":1}"), ["}", "{\"a\":1}"]);
    assert_eq!(items("[{\"a\":1}, {\"b\":"), ["{\"a\":1}", "{\"b\":"]);
}

#[test]
fn a_source_of_lines_is_one_of_lines() {
    for lines in [
        "",
        "\n",
        "{\"a\":1}\n{\"a\":2}\n",
        "{\"a\":1}",
        "{\"a\":\n{\"b\":1}\n{\"b\":2}\n",
        "{\"a\":1}}\n{\"b\":1}\n",
        "{nonsense\n",
        "[::1] - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.0\" 200 1\n",
        "[Thu Jan 01 00:00:00 2026] [error] {\"a\":1}\n",
        "plain\n",
        "{\"a\":1} behind\n{\"a\":2}\n",
    ] {
        assert!(!holds_values(lines.as_bytes()), "{lines}");
    }
    for values in [
        "[{\"a\":1}]",
        "[\n{\"a\":1},\n{\"a\":2}]",
        " [ ]",
        "\u{feff}[\n",
        "{\n  \"a\": 1\n}\n",
        "{\n  \"a\": 1,\n",
        "{\"a\":1}{\"a\":2}",
        "{\"a\":1} {\"a\":2}\n",
    ] {
        assert!(holds_values(values.as_bytes()), "{values}");
    }
}

fn value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<i32>().prop_map(Into::into),
        "[ -~\n\\\\\"{}\\[\\],]{0,8}".prop_map(serde_json::Value::String),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(serde_json::Value::Array),
            prop::collection::btree_map("[a-z\"{}]{0,3}", inner, 0..3)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn every_object_comes_back(
        objects in prop::collection::vec(
            prop::collection::btree_map("[a-z]{1,3}", value(), 0..4), 0..6),
        pretty in any::<bool>(),
        array in any::<bool>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let texts: Vec<String> = objects.iter().map(|object| match pretty {
            true => serde_json::to_string_pretty(object).unwrap(),
            false => serde_json::to_string(object).unwrap(),
        }).collect();
        let text = match array {
            true => format!("[{}]", texts.join(",\n")),
            false => texts.join("\n"),
        };
        prop_assert_eq!(items(&text), &texts[..]);
        // Cut anywhere, the whole items come first and the others from where they end.
        let begun = cut.index(text.len() + 1);
        let begun = (begun..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap();
        let end = JsonValues::whole(&text.as_bytes()[..begun], 0, usize::MAX).unwrap_or(0);
        let mut both = items(&text[..end]);
        both.extend(items(&text[end..]));
        prop_assert_eq!(both, &texts[..]);
    }
}
