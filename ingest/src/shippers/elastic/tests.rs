use super::*;

fn records(streams: &[StreamRecords]) -> Vec<(String, Vec<String>)> {
    let text = |records: &crate::Records| {
        let items = records.items(0);
        items
            .map(|item| String::from_utf8(item.bytes.to_vec()).unwrap())
            .collect()
    };
    let streams = streams.iter();
    streams
        .map(|s| (s.stream.clone(), text(&s.records)))
        .collect()
}

#[test]
fn documents_go_to_the_streams_of_their_indexes_in_the_order_of_the_body() {
    let body = concat!(
        "{\"create\":{\"_index\":\"logs-2026.11.26\"}}\n{\"a\":1}\n",
        "{\"index\":{}}\r\n{\"a\":2}\r\n\n",
        "{ \"index\" : {\"_index\":\"logs\",\"_id\":\"x\\\"y\",\"routing\":\"r\"} }\n { \"a\": 3}\n",
        "{\"index\":{\"_index\":\"logs\",\"_id\":7}}\n{ }\n",
        "{\"delete\":{\"_index\":\"logs\",\"_id\":\"7\"}}\n",
        "{\"update\":{\"_index\":\"logs\",\"_id\":\"7\"}}\n{\"doc\":{}}\n",
        "{\"index\":{\"_index\":\"--\"}}\n{\"a\":4}\n",
        "{\"create\":{\"_index\":\"logs\",\"_id\":\"z\"}}\n[1]",
    );
    let bulk = decode(body.as_bytes(), None, Some("web")).unwrap();
    let of_logs = [
        "{\"a\":1}",
        "{\"_id\":\"x\\\"y\", \"a\": 3}",
        "{\"_id\":\"7\" }",
        "[1]",
    ];
    let expected = [
        ("logs".to_owned(), of_logs.map(str::to_owned).to_vec()),
        ("web".to_owned(), vec!["{\"a\":2}".to_owned()]),
    ];
    assert_eq!(records(&bulk.streams), expected);
    let places: Vec<_> = bulk.items.iter().map(|item| item.place).collect();
    let at = |stream, record| Ok(RecordPlace { stream, record });
    assert_eq!(places[..4], [at(0, 0), at(1, 0), at(0, 1), at(0, 2)]);
    assert!(places[4..7].iter().all(Result::is_err));
    assert_eq!(places[7], at(0, 3));
    assert_eq!(bulk.items[2].id.as_deref(), Some("x\"y"));
    assert_eq!(bulk.items[0].index, "logs-2026.11.26");
    let fixed = decode(body.as_bytes(), Some("all"), None).unwrap();
    assert_eq!(fixed.streams.len(), 1);
    assert_eq!(fixed.streams[0].records.len(), 6);
}

#[test]
fn a_body_that_is_no_bulk_names_its_line() {
    for (body, line) in [
        ("{\"a\":1}\n", 1),
        ("GET / HTTP/1.1\n", 1),
        ("{\"index\":{}}\n{}\n{\"index\":{}}\n", 3),
        ("{\"index\":{}}\n{}\n{\"index\":{}}\n\n{}\n", 3),
        ("{\"index\":{}}\n{}\n{\"upsert\":{}}\n{}\n", 3),
        ("{\"index\":{},\"create\":{}}\n{}\n", 1),
    ] {
        let malformed = decode(body.as_bytes(), None, None).unwrap_err();
        assert_eq!(malformed.line, line, "{body}: {malformed:?}");
    }
    assert!(decode(b"", None, None).unwrap().items.is_empty());
}
