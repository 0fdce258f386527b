use serde_json::json;

use crate::Format;
use crate::formats::documents::testing::{assert_fields, event as event_of, refusal};

fn format(pattern: &str) -> Format {
    format!("grok:{pattern}").parse().unwrap()
}

fn event(pattern: &str, line: &str) -> serde_json::Value {
    event_of(format(pattern), line)
}

fn why(pattern: &str) -> String {
    format!("grok:{pattern}")
        .parse::<Format>()
        .unwrap_err()
        .to_string()
}

#[test]
fn a_pattern_of_the_manual_is_read_with_its_types() {
    let pattern = "%{IP:client} %{WORD:method} %{URIPATHPARAM:request} %{NUMBER:bytes:int} %{NUMBER:duration:float}";
    let all = json!({
        "time": "2026-11-26T12:00:00Z", "time_source": "received", "client": "192.0.2.7",
        "method": "GET", "request": "/index.html?a=b", "bytes": 15824, "duration": 0.043,
    });
    assert_eq!(
        event(pattern, "192.0.2.7 GET /index.html?a=b 15824 0.043"),
        all
    );
    assert_eq!(
        event(
            &format!("'{pattern}'"),
            "192.0.2.7 GET /index.html?a=b 15824 0.043"
        ),
        all
    );
    let format = format(pattern);
    assert_eq!(format.to_string().parse::<Format>().unwrap(), format);
}

/// Definitions of the library that look around, each beside literal text.
#[test]
fn definitions_are_read_without_their_look_around() {
    for (pattern, line, expected) in [
        ("n=%{NUMBER:n:float};", "n=-1.5;", json!({ "n": -1.5 })),
        ("%{BASE16NUM:n}h", "0xfFh", json!({ "n": "0xfF" })),
        (
            "%{IPV4:ip}:%{POSINT:port:int}",
            "192.0.2.7:80",
            json!({ "ip": "192.0.2.7", "port": 80 }),
        ),
        ("%{IP:ip}", "2001:db8::1", json!({ "ip": "2001:db8::1" })),
        (
            "at %{TIME:at}",
            "at 23:59:60.5",
            json!({ "at": "23:59:60.5" }),
        ),
        (
            "%{QS:a} %{QUOTEDSTRING:b}",
            r#""x \" y" 'z'"#,
            json!({ "a": r#""x \" y""#, "b": "'z'" }),
        ),
        ("%{YEAR:y:int}", "2026", json!({ "y": 2026 })),
        ("%{WINPATH:p}", r"C:\a\b.txt", json!({ "p": r"C:\a\b.txt" })),
        ("%{UNIXPATH:p}", "/a/b-c", json!({ "p": "/a/b-c" })),
        (
            "%{URI:u}",
            "http://h:80/p?q=1",
            json!({ "u": "http://h:80/p?q=1", "port": "80" }),
        ),
        (
            "%{GREEDYDATA:a} %{NUMBER:n:int}",
            "x 1 22 333",
            json!({ "a": "x 1 22", "n": 333 }),
        ),
        (
            "%{LOGLEVEL:[log][level]}: %{DATA:m}",
            "WARN: x",
            json!({ "log.level": "WARN", "m": "x" }),
        ),
        // A definition of one's own stands behind the type.
        (
            "%{ID:id:text=[a-z]+-[0-9]+} (?<rest>.*)",
            "ab-12 c",
            json!({ "id": "ab-12", "rest": "c" }),
        ),
    ] {
        assert_fields(format(pattern), line, expected);
    }
}

#[test]
fn times_are_read_as_those_of_expressions() {
    for (pattern, line, time) in [
        (
            "%{TIMESTAMP_ISO8601:timestamp} %{GREEDYDATA:m}",
            "2026-11-26 09:00:00,5 x",
            "2026-11-26T09:00:00.500000Z",
        ),
        (
            "\\[%{HTTPDATE:timestamp}\\]",
            "[26/Nov/2026:09:00:00 +0100]",
            "2026-11-26T08:00:00Z",
        ),
        (
            "%{SYSLOGTIMESTAMP:time} %{HOSTNAME:h}",
            "Nov 26 09:00:00 web",
            "2026-11-26T09:00:00Z",
        ),
        (
            "%{SYSLOGBASE} %{GREEDYDATA:line}",
            "Nov 26 09:00:00 web app[4]: x",
            "2026-11-26T09:00:00Z",
        ),
    ] {
        assert_eq!(event(pattern, line)["time"], time, "{pattern}");
    }
    let refused = refusal(format("%{WORD:time} x"), "noon x");
    assert!(refused.starts_with("bad_time: column 1"), "{refused}");
    let refused = refusal(format("%{INT:n:int}"), "1 and more");
    assert!(refused.starts_with("no_match: "), "{refused}");
}

/// Lines of Combined by Logstash's own pattern.
#[test]
fn access_logs_are_read_by_their_pattern() {
    let line = r#"192.0.2.7 - bob [10/Oct/2026:13:55:36 -0700] "GET /a HTTP/1.0" 200 2326 "-" "x""#;
    assert_fields(
        format("%{COMBINEDAPACHELOG}"),
        line,
        json!({
            "time": "2026-10-10T20:55:36Z", "clientip": "192.0.2.7", "auth": "bob", "verb": "GET",
            "request": "/a", "httpversion": "1.0", "response": "200", "bytes": "2326",
        }),
    );
}

/// The value of each pattern here differs if look-around is left out.
#[test]
fn a_value_that_look_around_would_cut_otherwise_is_refused() {
    for pattern in [
        "%{GREEDYDATA:a}%{NUMBER:n}",
        "%{DATA:a}%{IP:ip}",
        ".*%{NUMBER:n}",
        "[0-9]%{INT:a}-\\d+%{NUMBER:n}",
        "%{IPV4:a}%{DATA:b}",
        "%{IPV4:a}[0-9]*",
        "%{TIME:a}\\d*",
    ] {
        let why = why(pattern);
        assert!(why.contains("touches what stands"), "{pattern}: {why}");
    }
}

#[test]
fn a_pattern_that_cannot_be_read_says_why() {
    for (pattern, expected) in [
        (
            "%{NOSUCH:a}",
            "%{NOSUCH} is not defined: write %{NOSUCH=EXPRESSION}, or the expression itself",
        ),
        (
            "%{INT:a:number}",
            "the type \"number\" is not known: write int, float, bool or text",
        ),
        ("%{INT:a} %{WORD:a}", "two values are called \"a\""),
        ("%{INT} %{WORD}", "it has no named group"),
        ("(?=x)%{WORD:a}", "look-around"),
        ("(?<a>x)\\1", "it is no regular expression"),
        ("%{IPTABLES4_FRAG:a}", "looks for a text to be there"),
        (
            "%{A:a=%{A}}",
            "it is no grok pattern: InvalidPatternDefinition",
        ),
    ] {
        let why = why(pattern);
        assert!(why.contains(expected), "{pattern}: {why}");
    }
    let long = format!("{}%{{WORD:a}}", "x".repeat(5000));
    assert!(why(&long).contains("longer than 4096 bytes"));
}

/// Every definition of the library compiles, or is refused with its reason.
#[test]
fn definitions_of_the_library_compile() {
    let mut refused = Vec::new();
    for (name, _) in grok::patterns() {
        let pattern = format!("grok:%{{{name}:value}}");
        if let Err(error) = pattern.parse::<Format>() {
            refused.push(format!("{name}: {error}"));
        }
    }
    println!(
        "{} of {} refused: {refused:#?}",
        refused.len(),
        grok::patterns().len()
    );
    let names = refused.iter().map(|why| why.split(':').next().unwrap());
    assert_eq!(names.collect::<Vec<_>>(), REFUSED);
}

/// Eight look for a text to be there, and three have a brace that is no repetition.
const REFUSED: [&str; 11] = [
    "CISCO_TAGGED_SYSLOG",
    "IPTABLES",
    "IPTABLES4_FRAG",
    "IPTABLES4_PART",
    "MONGO_QUERY",
    "MONGO_SLOWQUERY",
    "RAILS3",
    "RPROCESSING",
    "SFW2",
    "SHOREWALL",
    "SYSLOGPAMSESSION",
];

/// A backtracking engine needs a time that doubles with each character here.
#[test]
fn a_hostile_line_is_read_in_linear_time() {
    let format = format("%{QUOTEDSTRING:a}(x+x+)+y %{GREEDYDATA:b}");
    let line = format!("\"{}\"{}", "\\\\".repeat(50_000), "x".repeat(100_000));
    let began = std::time::Instant::now();
    assert!(refusal(format, &line).starts_with("no_match: "));
    assert!(began.elapsed().as_secs() < 10);
}
