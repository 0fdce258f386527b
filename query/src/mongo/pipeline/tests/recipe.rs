//! The pipelines of the classic designs, with the figures that must come.

use bson::{Bson, DateTime, Document, bson, doc};

use super::{aggregate, documents};

fn time(text: &str) -> DateTime {
    DateTime::parse_rfc3339_str(text).unwrap()
}

/// Returns the sessions of the worked example.
fn sessions() -> Vec<Document> {
    let sessions = [
        ("2010-10-10T14:17:22Z", 95),
        ("2010-10-10T14:40:00Z", 159),
        ("2010-10-10T15:05:00Z", 60),
        ("2010-10-31T23:59:59.999Z", 10),
        ("2010-11-01T00:00:00Z", 20),
    ];
    let sessions = sessions.iter();
    let sessions = sessions.map(|(at, length)| {
        doc! { "userid": "rick", "ts": time(at), "length": *length }
    });
    sessions.collect()
}

/// Returns the (beginning, total, count, mean) of each bucket of a unit.
fn buckets(sessions: &[Document], unit: &str) -> Vec<(String, i32, i32, f64)> {
    let stages = documents(bson!([
        { "$group": {
            "_id": { "u": "$userid", "d": { "$dateTrunc": { "date": "$ts", "unit": unit } } },
            "total": { "$sum": "$length" },
            "count": { "$sum": 1 },
            "mean": { "$avg": "$length" },
        } },
        { "$sort": { "_id.d": 1 } },
    ]));
    let results = aggregate(sessions.to_vec(), &stages).unwrap();
    let bucket = |result: &Document| {
        let begin = result
            .get_document("_id")
            .unwrap()
            .get_datetime("d")
            .unwrap();
        let number = |name: &str| result.get_i32(name).unwrap();
        let mean = result.get_f64("mean").unwrap();
        let begin = begin.try_to_rfc3339_string().unwrap();
        (
            begin[..13].to_owned(),
            number("total"),
            number("count"),
            mean,
        )
    };
    results.iter().map(bucket).collect()
}

#[test]
fn hierarchical_aggregation() {
    let bucket = |begin: &str, total: i32, count: i32| {
        (
            begin.to_owned(),
            total,
            count,
            f64::from(total) / f64::from(count),
        )
    };
    let mut events = sessions();
    let hours = buckets(&events, "hour");
    assert_eq!(hours[0], bucket("2010-10-10T14", 254, 2));
    assert_eq!(buckets(&events, "day")[0], bucket("2010-10-10T00", 314, 3));
    let months = buckets(&events, "month");
    assert_eq!(
        months,
        [
            bucket("2010-10-01T00", 324, 4),
            bucket("2010-11-01T00", 20, 1)
        ]
    );
    assert_eq!(buckets(&events, "week")[1], bucket("2010-10-31T00", 30, 2));
    assert_eq!(buckets(&events, "year"), [bucket("2010-01-01T00", 344, 5)]);
    events.push(doc! { "userid": "rick", "ts": time("2010-10-10T14:00:00Z"), "length": 46 });
    assert_eq!(buckets(&events, "hour")[0], bucket("2010-10-10T14", 300, 3));
    assert_eq!(buckets(&events, "day")[0], bucket("2010-10-10T00", 360, 4));
    assert_eq!(
        buckets(&events, "month")[0],
        bucket("2010-10-01T00", 370, 5)
    );
    assert_eq!(buckets(&events, "week")[0], bucket("2010-10-10T00", 360, 4));
    assert_eq!(buckets(&events, "year"), [bucket("2010-01-01T00", 390, 6)]);
}

fn hits_by_day_and_page() -> Bson {
    bson!([
        { "$match": { "time": {
            "$gte": time("2000-10-01T00:00:00Z"), "$lt": time("2000-11-01T00:00:00Z"),
        } } },
        { "$project": { "path": 1, "date": {
            "y": { "$year": "$time" }, "m": { "$month": "$time" }, "d": { "$dayOfMonth": "$time" },
        } } },
        { "$group": {
            "_id": { "p": "$path", "y": "$date.y", "m": "$date.m", "d": "$date.d" },
            "hits": { "$sum": 1 },
        } },
    ])
}

#[test]
fn hits_by_day_and_page_of_the_log() {
    let event = |at: &str, path: &str| doc! { "time": time(at), "path": path };
    let events = vec![
        event("2000-10-10T20:55:36Z", "/apache_pb.gif"),
        event("2000-10-10T23:59:59.999Z", "/apache_pb.gif"),
        event("2000-10-11T00:00:00Z", "/apache_pb.gif"),
        event("2000-10-10T01:00:00Z", "/index.html"),
        event("2000-11-01T00:00:00Z", "/apache_pb.gif"),
        event("2000-09-30T23:59:59.999Z", "/apache_pb.gif"),
    ];
    let results = aggregate(events, &documents(hits_by_day_and_page())).unwrap();
    let day = |page: &str, day: i32, hits: i32| {
        doc! { "_id": { "p": page, "y": 2000, "m": 10, "d": day }, "hits": hits }
    };
    let expected = [
        day("/apache_pb.gif", 10, 2),
        day("/apache_pb.gif", 11, 1),
        day("/index.html", 10, 1),
    ];
    assert_eq!(results, expected);
}
