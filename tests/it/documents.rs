//! Reports to the second: the document of a page's day and of its month, from the command line and
//! from a server, right after an acknowledgement.

use serde_json::{Value, json};

use crate::support::{Home, PAST_S, Server, line, run, sample};

/// Returns every minute that has hits, as `(date, path, hour, minute, hits)`, from documents.
fn minutes(documents: &[Value]) -> Vec<Value> {
    let mut found = Vec::new();
    for document in documents {
        let metadata = &document["metadata"];
        for hour in 0..24 {
            for minute in 0..60 {
                let hits = &document["minute"][hour.to_string()][minute.to_string()];
                if *hits != 0 {
                    let (date, path) = (&metadata["date"], &metadata["path"]);
                    found.push(json!({ "d": date, "p": path, "h": hour, "m": minute, "n": hits }));
                }
            }
        }
    }
    found
}

/// Returns the sum of the members of a document's level.
fn sum(members: &Value) -> u64 {
    let members = members.as_object().expect("members").values();
    members
        .map(|member| member.as_u64().unwrap_or_else(|| sum(member)))
        .sum()
}

#[test]
fn the_documents_of_an_imported_log_are_its_events() {
    let home = Home::new();
    home.import(&sample(), &[]);
    let days = home.sql("SELECT * FROM stats.daily_documents");
    let raw = "SELECT date_trunc('day', time) AS d, path AS p, date_part('hour', time) AS h, \
               date_part('minute', time) AS m, count(*) AS n FROM access GROUP BY 1, 2, 3, 4 \
               ORDER BY 1, 2 NULLS FIRST, 3, 4";
    assert_eq!(minutes(&days), home.sql(raw));
    let mut all = 0;
    for day in &days {
        let total = day["daily"].as_u64().expect("a total");
        assert_eq!(sum(&day["hourly"]), total, "{}", day["_id"]);
        assert_eq!(sum(&day["minute"]), total, "{}", day["_id"]);
        all += total;
    }
    assert_eq!(all, home.count());
    let months = home.sql("SELECT * FROM stats.monthly_documents");
    assert!(months.len() < days.len());
    for month in &months {
        assert_eq!(month["monthly"], sum(&month["daily"]), "{}", month["_id"]);
    }
    let months: u64 = months.iter().map(|month| sum(&month["daily"])).sum();
    assert_eq!(months, all);
    let one = "SELECT * FROM stats.daily_documents \
               WHERE metadata['path'] = '/shop/basket' AND metadata['date'] = '2024-02-29'";
    let told = run(&[
        "sql",
        one,
        "--data",
        &home.data,
        "--explain",
        "--output",
        "json",
    ])
    .code(0);
    let text = told.stdout + &told.stderr;
    assert!(
        text.contains("rollup stats.hourly") && text.contains("rollup stats.minutely"),
        "{text}"
    );
}

#[test]
fn a_document_holds_each_hit_as_soon_as_it_is_acknowledged() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let ask = "SELECT daily, hourly['23'] AS h, minute['23']['59'] AS m FROM stats.daily_documents \
               WHERE metadata['site'] = 'site-1' AND metadata['path'] = '/index.html' \
               AND metadata['date'] = '2024-03-01'";
    // The last minute of 1 March 2024, and the first of the next day.
    let last = PAST_S + 86_400 - 60;
    for hits in 1..=12_u64 {
        let body = line("203.0.113.1", last + hits as i64, "/index.html", 200, 1)
            + &line("203.0.113.1", last + 60, "/index.html", 200, 1)
            + &line("203.0.113.1", last, "/other.html", 200, 1);
        server.ingest("access?site=site-1", body);
        assert_eq!(
            server.sql(ask),
            [json!({ "daily": hits, "h": hits, "m": hits })]
        );
        if hits % 5 == 0 {
            server.seal();
        }
    }
    let month = "SELECT _id, monthly, daily['1'] AS first, daily['2'] AS second, daily['31'] AS last \
                 FROM stats.monthly_documents WHERE metadata['path'] = '/index.html'";
    let expected = json!({ "_id": "202403/site-1//index.html", "monthly": 24, "first": 12, "second": 12, "last": 0 });
    assert_eq!(server.sql(month), [expected]);
    let refused = server.post("/api/v1/sql", &[], b"SELECT * FROM stats.dayly_documents");
    let refused = refused.status(400).json();
    let hint = refused["error"]["hint"].as_str().expect("a hint");
    assert!(hint.contains("stats.daily_documents"), "{refused}");
}
