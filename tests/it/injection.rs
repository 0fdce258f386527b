//! Log text is hostile: the corpus of injection strings through every field, stored and returned
//! byte by byte as JSON, and never as part of a page.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::{Home, PAST_S, Server, fixture_bytes, line};

/// Returns the texts of the corpus as a server would have logged them, decoded: with raw control
/// bytes and invalid UTF-8 (see `fixtures/README.md`).
pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let file = fixture_bytes("injection.txt");
    let logged: Vec<Vec<u8>> = file
        .split(|b| *b == b'\n')
        .filter(|l| !l.is_empty())
        .map(<[u8]>::to_vec)
        .collect();
    let raw = logged.iter().map(|text| decode(text));
    let mut all: Vec<Vec<u8>> = raw.filter(|raw| !logged.contains(raw)).collect();
    all.extend(logged.iter().cloned());
    assert!(all.len() > 120, "the corpus has lost texts: {}", all.len());
    all
}

/// Decodes `\xNN` to a byte and `\u{H}` to a character; a backslash before anything else stays.
fn decode(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        if first != b'\\' {
            out.push(first);
            rest = after;
            continue;
        }
        match after {
            [b'x', a, b, more @ ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => {
                out.push(hex(&[*a, *b]) as u8);
                rest = more;
            }
            [b'u', b'{', more @ ..] => {
                let end = more
                    .iter()
                    .position(|b| *b == b'}')
                    .expect("a closed escape");
                let c = char::from_u32(hex(&more[..end])).expect("a character");
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                rest = &more[end + 1..];
            }
            [next, more @ ..] => {
                out.extend_from_slice(&[b'\\', *next]);
                rest = more;
            }
            [] => panic!("a text ends with a backslash"),
        }
    }
    out
}

fn hex(digits: &[u8]) -> u32 {
    let text = std::str::from_utf8(digits).expect("digits");
    u32::from_str_radix(text, 16).expect("hexadecimal digits")
}

/// Returns the corpus in every field of an access log; each line with the columns it must yield.
pub(crate) fn hostile_log(at_s: i64) -> Vec<(Vec<u8>, Value)> {
    let mut lines = Vec::new();
    let stamp = line("", at_s, "/", 200, 1);
    let stamp = stamp
        .split_once('[')
        .and_then(|(_, s)| s.split_once(']'))
        .map(|(stamp, _)| stamp.to_owned())
        .expect("a stamp");
    for text in corpus() {
        let shown = String::from_utf8_lossy(&text).into_owned();
        let mut add = |host: &[u8],
                       user: &[u8],
                       target: &[u8],
                       referrer: &[u8],
                       agent: &[u8],
                       wanted: Value| {
            let parts: [&[u8]; 11] = [
                host,
                b" - ",
                user,
                b" [",
                stamp.as_bytes(),
                b"] \"GET ",
                target,
                b" HTTP/1.1\" 200 66 \"",
                referrer,
                b"\" \"",
                agent,
            ];
            lines.push(([&parts.concat()[..], b"\"\n"].concat(), wanted));
        };
        let (host, none, root) = (&b"203.0.113.66"[..], &b"-"[..], &b"/"[..]);
        add(
            host,
            none,
            root,
            none,
            &text,
            json!({ "user_agent": shown }),
        );
        add(host, none, root, &text, none, json!({ "referrer": shown }));
        let target = [root, &text].concat();
        let (path, query) = match shown.split_once('?') {
            Some((path, query)) => (format!("/{path}"), json!(query)),
            None => (format!("/{shown}"), Value::Null),
        };
        add(
            host,
            none,
            &target,
            none,
            none,
            json!({ "path": path, "query": query }),
        );
        let target = [b"/?", &text[..]].concat();
        add(
            host,
            none,
            &target,
            none,
            none,
            json!({ "path": "/", "query": shown }),
        );
        if !text.contains(&b' ') && !text.contains(&b'"') {
            add(host, &text, root, none, none, json!({ "user": shown }));
            add(&text, none, root, none, none, json!({ "host": shown }));
        }
    }
    lines
}

#[test]
fn hostile_text_in_any_field_of_an_access_log_comes_back_as_it_was_logged() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let lines = hostile_log(PAST_S);
    let body: Vec<u8> = lines.iter().flat_map(|(line, _)| line.clone()).collect();
    let answer = server.ingest("access?format=combined", &body);
    assert_eq!(answer["accepted"], lines.len(), "{}", answer["errors"]);
    // The first round reads from the memtable, the second from a part.
    for _ in 0..2 {
        let query = "SELECT * FROM access ORDER BY _seq";
        let answer = server
            .post("/api/v1/sql", &[], query.as_bytes())
            .status(200);
        assert_eq!(answer.header("content-type"), "application/json");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        let rows = answer.json()["rows"].take();
        let rows = rows.as_array().expect("rows");
        assert_eq!(rows.len(), lines.len());
        for (row, (line, wanted)) in rows.iter().zip(&lines) {
            for (name, value) in wanted.as_object().expect("an object") {
                assert_eq!(
                    row[name],
                    *value,
                    "{name} of {}",
                    String::from_utf8_lossy(line)
                );
            }
        }
        server.seal();
    }
    // The texts are keys of a rollup too: every (path, hits) pair.
    let mut wanted: BTreeMap<String, u64> = BTreeMap::new();
    for (_, columns) in &lines {
        let path = columns["path"].as_str().unwrap_or("/").to_owned();
        *wanted.entry(path).or_default() += 1;
    }
    let rows = server.sql("SELECT path, hits FROM stats.daily");
    let found: BTreeMap<String, u64> = rows
        .iter()
        .map(|r| {
            let path = r["path"].as_str().expect("a path").to_owned();
            (path, r["hits"].as_u64().expect("a count"))
        })
        .collect();
    assert_eq!(found, wanted);
    // The texts are also values of a query's parameters.
    for (_, columns) in lines.iter().filter(|(_, c)| c["user_agent"].is_string()) {
        let sql = "SELECT count(*) AS n FROM access WHERE user_agent = $1";
        let body = json!({ "sql": sql, "params": [columns["user_agent"]] });
        let answer = server.post("/api/v1/sql", &[], body.to_string().as_bytes());
        let n = answer.status(200).json()["rows"][0]["n"].as_u64();
        assert!(n >= Some(1), "{columns}: {n:?}");
    }
}

#[test]
fn hostile_text_in_names_and_values_of_documents_comes_back_as_it_was_sent() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let mut texts: Vec<String> = corpus()
        .iter()
        .map(|t| String::from_utf8_lossy(t).into_owned())
        .collect();
    texts.sort();
    texts.dedup();
    // BSON ends a name at a NUL, and names have a limit: such texts come as values only.
    let is_name = |text: &str| !text.contains('\0') && text.len() <= 1024;
    let body: String = texts
        .iter()
        .enumerate()
        .map(|(i, text)| {
            let mut document =
                json!({ "ts": PAST_S, "number": i, "value": text, "nested": { "inner": text } });
            if is_name(text) {
                document[text] = json!(text);
            }
            format!("{document}\n")
        })
        .collect();
    let answer = server.ingest("events?format=json", &body);
    assert_eq!(answer["accepted"], texts.len(), "{}", answer["errors"]);
    for _ in 0..2 {
        let rows = server.sql("SELECT * FROM events ORDER BY number");
        assert_eq!(rows.len(), texts.len());
        for (row, text) in rows.iter().zip(&texts) {
            assert_eq!(
                (&row["value"], &row["nested.inner"]),
                (&json!(text), &json!(text))
            );
            if is_name(text) {
                assert_eq!(row[text], *text, "the field {text:?}");
            }
        }
        server.seal();
    }
    // A name with a NUL is bad, and its line is kept as it came.
    let bad = "{\"a\\u0000b\":1}";
    let answer = server.ingest("events?format=json", bad);
    assert_eq!(answer["quarantined"], 1);
}

#[test]
fn hostile_text_in_the_address_is_answered_as_json_or_not_at_all() {
    let home = Home::new();
    let server = Server::start(&home.data);
    for path in [
        "/%3Cscript%3Ealert(1)%3C/script%3E",
        "/api/v1/ingest/%3Cscript%3E",
        "/../../etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
        "/page.js/..%2f",
    ] {
        let answer = server.get(path);
        assert!(
            matches!(answer.status, 404 | 405),
            "{path}: {}",
            answer.status
        );
        if !answer.body.is_empty() {
            assert_eq!(answer.header("content-type"), "application/json", "{path}");
            assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        }
    }
}
