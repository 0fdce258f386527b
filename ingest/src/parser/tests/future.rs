//! Lines whose time has not come bring their events with them.

use super::*;

const COME_US: i64 = 1_700_000_000_000_000;

/// A field of a line has one type in all lines: a type is that of the first value.
fn line(format: &Format, time: i64, fields: &[bool; 3]) -> String {
    let [a, b, c] = fields;
    match format {
        Format::Json => {
            let a = if *a { ",\"a\":1" } else { "" };
            let b = if *b { ",\"b\":\"x\"" } else { "" };
            let c = if *c { ",\"c\":{\"d\":true}" } else { "" };
            format!("{{\"time\":{time}{a}{b}{c}}}")
        }
        _ => {
            let stamp = jiff::Timestamp::from_second(time).unwrap();
            let stamp = stamp.strftime("%d/%b/%Y:%H:%M:%S +0000");
            let [user, path, size] =
                [(a, "u"), (b, "/p"), (c, "7")].map(|(has, value)| if *has { value } else { "-" });
            format!("h - {user} [{stamp}] \"GET {path} HTTP/1.0\" 200 {size}")
        }
    }
}

proptest! {
    #[test]
    fn a_block_is_the_same_but_for_the_events_of_lines_of_the_future(
        is_json in any::<bool>(),
        raw_line in any::<bool>(),
        lines in prop::collection::vec((-3..3_i64, any::<[bool; 3]>(), 0..5), 0..12),
    ) {
        let format = if is_json { Format::Json } else { Format::Common };
        let lines: Vec<String> = lines
            .iter()
            .map(|(after, fields, fault)| match fault {
                0 => "broken".to_owned(),
                _ => line(&format, COME_US / 1_000_000 + after, fields),
            })
            .collect();
        let parse = |text: &str, received_us, reads_future| {
            let parsed = Parser::new(ParseOptions {
                received_us,
                reads_future,
                max_future_us: 0,
                selection: Selection { raw_line, ..Selection::default() },
                ..options(format.clone())
            }).parse(text.as_bytes()).unwrap();
            check_sums(&parsed);
            parsed
        };
        let text = lines.join("\n");
        let (without, with) = (parse(&text, COME_US, false), parse(&text, COME_US, true));
        let bare = |item: &Quarantined| Quarantined { event: None, ..item.clone() };
        let items: Vec<Quarantined> = with.quarantine.iter().map(bare).collect();
        prop_assert_eq!(items, without.quarantine);
        let values = |events: &RecordBatch| {
            let named = events.schema();
            let named = named.fields().iter().zip(events.columns());
            let named = named.filter(|(_, column)| column.null_count() < column.len());
            let mut named: Vec<_> =
                named.map(|(field, column)| (field.name().clone(), column.clone())).collect();
            named.sort_by(|a, b| a.0.cmp(&b.0));
            named
        };
        prop_assert_eq!(with.events.num_rows(), without.events.num_rows());
        prop_assert_eq!(values(&with.events), values(&without.events));
        if is_json {
            // A document's column is there for its values.
            let named = |events: &RecordBatch| events.num_columns();
            prop_assert_eq!(named(&with.events), named(&without.events));
        } else {
            prop_assert_eq!(with.events.schema(), without.events.schema());
        }
        for item in &with.quarantine {
            prop_assert_eq!(item.event.is_some(), item.reason == "future");
            if let Some(event) = &item.event {
                let alone = parse(std::str::from_utf8(&item.raw).unwrap(), i64::MAX, false);
                prop_assert_eq!(values(event), values(&alone.events));
            }
        }
    }
}
