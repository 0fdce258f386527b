//! The page: its files and their headers, and hostile log text that stays text in a browser.

mod behaviour;
mod proxy;

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::injection::hostile_log;
use crate::support::{Home, Server};
use proxy::Proxy;

#[test]
fn every_asset_comes_under_the_policy_and_with_its_type() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let mut count = 0;
    for path in dashboards::paths() {
        let answer = server.get(path).status(200);
        let asset = dashboards::asset(path).expect("BUG: a path without its asset");
        assert!(answer.body == asset.body, "{path}");
        let policy = answer.header("content-security-policy");
        assert_eq!(policy, dashboards::CONTENT_SECURITY_POLICY, "{path}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("content-type"), asset.content_type, "{path}");
        count += 1;
    }
    assert!(count > 5, "{count} assets");
    for forbidden in ["unsafe-inline", "unsafe-eval", "http:", "https:", "*"] {
        let policy = dashboards::CONTENT_SECURITY_POLICY;
        assert!(!policy.contains(forbidden), "{forbidden} in {policy}");
    }
    assert!(dashboards::CONTENT_SECURITY_POLICY.contains("script-src 'self'"));
}

#[test]
fn the_page_holds_nothing_of_the_log() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let before = server.get("/").body;
    let lines = hostile_log(chrono::Utc::now().timestamp() - 60);
    let body: Vec<u8> = lines.iter().flat_map(|(line, _)| line.clone()).collect();
    server.ingest(
        "access?format=combined&site=%3Cscript%3Ealert(0)%3C/script%3E",
        &body,
    );
    let after = server.get("/?path=%3Cscript%3Ealert(1)%3C/script%3E").body;
    assert!(before == after);
}

pub(crate) fn chromium() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    let found = names.into_iter().find(|name| {
        let able = Command::new(name).arg("--version").output();
        able.is_ok_and(|o| o.status.success())
    });
    if found.is_none() {
        println!("skipped: there is no Chromium");
    }
    found
}

#[test]
fn hostile_text_on_the_page_is_text_and_runs_nothing() {
    let Some(browser) = chromium() else { return };
    let home = Home::new();
    let server = Server::start(&home.data);
    let now = chrono::Utc::now().timestamp();
    let lines = hostile_log(now - 60);
    let body: Vec<u8> = lines.iter().flat_map(|(line, _)| line.clone()).collect();
    server.ingest(
        "access?format=combined&site=%3Cscript%3Ealert(0)%3C/script%3E",
        &body,
    );
    // The tail holds events as the server would push them.
    let rows = server.sql("SELECT * FROM access ORDER BY _seq LIMIT 200");
    let tail: String = rows.iter().map(|row| format!("data: {row}\n\n")).collect();
    let proxy = Proxy::start(server.address.clone(), tail);
    let hostile = "%3Cimg%20src%3Dx%20onerror%3Dalert(8)%3E";
    let date = chrono::DateTime::from_timestamp(now - 60, 0)
        .expect("a time")
        .format("%Y-%m-%d");
    let mut seen = String::new();
    for query in [
        "?range=1h&zone=UTC".to_owned(),
        format!("?stream=access&range=1h&zone=UTC&host=203.0.113.66&date={date}"),
        format!(
            "?stream={hostile}&range={hostile}&path={hostile}&site={hostile}&zone={hostile}&host={hostile}"
        ),
    ] {
        let (dom, log) = dump(browser, &home, &format!("{}/{query}", proxy.url));
        assert!(
            proxy.took_tail(),
            "{query}: the page does not follow the stream: {log}"
        );
        assert_harmless(&dom, &query);
        for word in ["Content Security Policy", "Refused to", "alert("] {
            assert!(!log.contains(word), "{query}: the browser says {log}");
        }
        seen += &dom;
    }
    // Hostile text is on the page indeed, as text: in the charts' tables, the slice and the tail.
    let shown = seen.matches("&lt;script").count();
    println!("{shown} times a hostile <script is shown as text");
    assert!(
        shown > 20,
        "hostile text is shown {shown} times only:\n{seen}"
    );
}

/// Returns the page's document after its scripts have run, and what the browser logged.
fn dump(browser: &str, home: &Home, url: &str) -> (String, String) {
    dump_in(browser, home, url, &[], 8000)
}

/// Does the same after so many milliseconds of the browser's virtual time.
fn dump_after(browser: &str, home: &Home, url: &str, budget_ms: u32) -> (String, String) {
    dump_in(browser, home, url, &[], budget_ms)
}

/// Does the same with more switches of the browser.
pub(crate) fn dump_with(
    browser: &str,
    home: &Home,
    url: &str,
    switches: &[&str],
) -> (String, String) {
    dump_in(browser, home, url, switches, 8000)
}

fn dump_in(
    browser: &str,
    home: &Home,
    url: &str,
    switches: &[&str],
    budget_ms: u32,
) -> (String, String) {
    let mut child = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--enable-logging=stderr",
            "--window-size=1440,2400",
            "--dump-dom",
        ])
        .arg(format!("--virtual-time-budget={budget_ms}"))
        .arg(format!("--user-data-dir={}", home.path("browser")))
        .args(switches)
        .arg(url)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the browser starts");
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        let read = |from: Option<Box<dyn std::io::Read + Send>>| {
            scope.spawn(move || {
                let mut text = Vec::new();
                if let Some(mut from) = from {
                    // A browser that is killed below has closed its pipes: its output until then
                    // is kept.
                    let _ignored = from.read_to_end(&mut text);
                }
                String::from_utf8_lossy(&text).into_owned()
            })
        };
        let dom = read(stdout.map(|s| Box::new(s) as Box<dyn std::io::Read + Send>));
        let log = read(stderr.map(|s| Box::new(s) as Box<dyn std::io::Read + Send>));
        // A dialog would hold the browser up for ever: that is a failure too.
        let until = Instant::now() + Duration::from_secs(90);
        let ended = loop {
            if child
                .try_wait()
                .expect("the state of our own child")
                .is_some()
            {
                break true;
            }
            if Instant::now() > until {
                break false;
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        if !ended {
            let _ignored = child.kill();
            let _ignored = child.wait();
        }
        let dom = dom.join().expect("a reading thread");
        let log = log.join().expect("a reading thread");
        assert!(ended, "the browser does not end at {url}: {log}");
        assert!(
            dom.contains("</html>"),
            "no document of {url}: {dom}\n{log}"
        );
        (dom, log)
    })
}

/// Checks that there are only the page's own elements, no handlers, no addresses of others.
#[track_caller]
fn assert_harmless(dom: &str, query: &str) {
    let (own, _) = elements(include_str!("../../dashboards/src/page/index.html"));
    let own: BTreeSet<String> = own.into_iter().map(|(name, _)| name).collect();
    let (found, title) = elements(dom);
    // Elements that the page's scripts add: rows, options, and the shapes of a chart.
    let made = [
        "a", "b", "button", "circle", "div", "g", "li", "line", "optgroup", "option", "path",
        "rect", "span", "svg", "td", "text", "textarea", "th", "tr",
    ];
    for (name, attributes) in &found {
        assert!(
            own.contains(name) || made.contains(&name.as_str()),
            "{query}: the page has an element <{name}> {attributes:?}"
        );
        for (attribute, value) in attributes {
            let context = format!("{query}: <{name} {attribute}={value:?}>");
            assert!(!attribute.starts_with("on"), "{context}");
            assert!(attribute != "srcdoc" && attribute != "action", "{context}");
            if ["src", "href", "data", "xlink:href", "formaction"].contains(&attribute.as_str()) {
                let local = value.starts_with('/') && !value.starts_with("//");
                assert!(local || value.starts_with(['?', '#']), "{context}");
            }
        }
        if name == "script" {
            assert!(
                attributes
                    .iter()
                    .any(|(a, v)| a == "src" && v == "/page.js"),
                "{query}: {attributes:?}"
            );
        }
    }
    // The page makes <b> itself, but not one in another, as the corpus has it.
    assert!(!dom.contains("<b><b>"), "{query}: bold in bold");
    assert!(
        !title.contains("nine") && title.contains("logmill"),
        "{query}: the title is {title:?}"
    );
}

type Element = (String, Vec<(String, String)>);

/// Returns the elements of a serialised document with their attributes, and its first title. A
/// serialiser escapes `<` in text and quotes every attribute, so a `<` outside of quotes begins
/// an element.
fn elements(document: &str) -> (Vec<Element>, String) {
    let mut found = Vec::new();
    let mut rest = document;
    while let Some((_, after)) = rest.split_once('<') {
        if let Some(comment) = after.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, r)| r);
            continue;
        }
        let name_end = after
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != ':')
            .unwrap_or(after.len());
        let name = after[..name_end].to_ascii_lowercase();
        rest = &after[name_end..];
        if name.is_empty() {
            // An end tag or the doctype.
            continue;
        }
        let mut attributes = Vec::new();
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
            if rest.is_empty() || rest.starts_with('>') {
                break;
            }
            let end = rest
                .find(|c: char| c.is_ascii_whitespace() || c == '=' || c == '>')
                .unwrap_or(rest.len());
            let attribute = rest[..end].to_ascii_lowercase();
            rest = &rest[end..];
            let mut value = "";
            if let Some(quoted) = rest.strip_prefix("=\"") {
                (value, rest) = quoted.split_once('"').unwrap_or((quoted, ""));
            } else if let Some(bare) = rest.strip_prefix('=') {
                let end = bare
                    .find(|c: char| c.is_ascii_whitespace() || c == '>')
                    .unwrap_or(bare.len());
                (value, rest) = bare.split_at(end);
            }
            attributes.push((attribute, value.to_owned()));
        }
        found.push((name, attributes));
    }
    let title = document
        .split_once("<title>")
        .and_then(|(_, r)| r.split_once("</title>"))
        .map_or("", |(title, _)| title);
    (found, title.to_owned())
}

#[test]
fn the_check_of_the_page_finds_what_it_looks_for() {
    let page = |inside: &str| {
        format!("<html><head><title>logmill</title></head><body>{inside}</body></html>")
    };
    assert_harmless(
        &page("<p title=\"<script>alert(1)</script>\">&lt;script&gt;</p>"),
        "harmless",
    );
    for bad in [
        "<iframe></iframe>",
        "<img src=x onerror=alert(8)>",
        "<p onclick=\"x\"></p>",
        "<a href=\"javascript:alert(23)\">x</a>",
        "<script>alert(1)</script>",
        "<img src=\"//evil.example/x\">",
    ] {
        let page = page(bad);
        let found = std::panic::catch_unwind(|| assert_harmless(&page, "bad"));
        assert!(found.is_err(), "{bad} was not found");
    }
}
