//! `stream suggest-shard-key`: the same figures of a directory and of its server.

use crate::support::{Home, PAST_S, Server, line, run};

#[test]
fn a_directory_and_its_server_measure_the_same_keys() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let host = |n: i64| format!("203.0.113.{}", n % 7);
    let path = |n: i64| {
        if n % 3 == 0 {
            "/hot".to_owned()
        } else {
            format!("/p{}", n % 40)
        }
    };
    let lines = (0..2000).map(|n| line(&host(n), PAST_S + n * 3, &path(n), 200, 10));
    server.ingest("access", lines.collect::<String>());
    server.seal();
    let asked = [
        "stream",
        "suggest-shard-key",
        "access",
        "--shards",
        "4",
        "--key",
        "status,path",
    ];
    let ask = |more: &[&str]| run(&[&asked[..], more].concat()).code(0);
    let (own, served) = (["--data", &home.data], ["--server", &server.url]);
    let figures = ask(&[&own[..], &["--output", "json"]].concat()).json();
    assert_eq!(
        figures,
        ask(&[&served[..], &["--output", "json"]].concat()).json()
    );
    assert_eq!(figures["events"], 2000);
    let keys = figures["keys"].as_array().expect("keys");
    let of = |key: &str| {
        let found = keys.iter().find(|figures| figures["key"] == key);
        found.unwrap_or_else(|| panic!("{key}: {figures:#}"))
    };
    for key in [
        "batch",
        "time",
        "host",
        "path",
        "site, path + hash if hot",
        "status, path",
    ] {
        let busiest = of(key)["busiest"].as_f64().expect("a number");
        assert!((1.0..=4.0).contains(&busiest), "{key}: {busiest}");
    }
    assert_eq!(of("path")["hottest"]["values"][0], "/hot");

    let table = ask(&own).stdout;
    assert_eq!(table, ask(&served).stdout);
    assert!(table.starts_with("access: 2,000 events from "), "{table}");
    assert_eq!(
        table.lines().filter(|line| line.starts_with("* ")).count(),
        1,
        "{table}"
    );
    assert!(
        table.contains("time as the key sends the events of a minute to one shard"),
        "{table}"
    );

    let refused = run(&[&asked[..], &own, &["--key", "nonsense"]].concat())
        .code(1)
        .stderr;
    assert!(refused.contains("no column \"nonsense\""), "{refused}");
    let never = ["stream", "suggest-shard-key", "never", "--shards", "4"];
    let refused = run(&[&never[..], &own].concat()).code(2).stderr;
    assert!(refused.contains("there is no stream never"), "{refused}");
}
