//! Pages of other origins, and names that are not the server's: requests return nothing and
//! change nothing.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use serde_json::{Value, json};

use crate::page::{chromium, dump_with};
use crate::support::{Home, PAST_S, Server, line};

/// Every route, the page, an asset of it and a path that leads nowhere.
const REQUESTS: [(&str, &str); 38] = [
    ("GET", "/"),
    ("GET", "/page.js"),
    ("GET", "/nowhere"),
    ("POST", "/nowhere"),
    ("GET", "/health"),
    ("HEAD", "/health"),
    ("GET", "/ready"),
    ("GET", "/metrics"),
    ("POST", "/api/v1/ingest/access"),
    ("POST", "/api/v1/ingest/access?debug=1"),
    ("POST", "/api/v1/sql"),
    ("GET", "/api/v1/sql"),
    ("GET", "/api/v1/tail?stream=access"),
    ("POST", "/api/v1/cluster/snapshots"),
    ("DELETE", "/api/v1/cluster/snapshots/0"),
    ("POST", "/api/v1/cluster/requests?snapshot=0"),
    ("GET", "/api/v1/streams"),
    ("GET", "/api/v1/streams/access/schema"),
    ("GET", "/api/v1/streams/access/shard-keys?shards=4"),
    ("GET", "/api/v1/partitions"),
    ("DELETE", "/api/v1/partitions?stream=access&date=2024"),
    ("POST", "/api/v1/partitions/detach?stream=access&date=2024"),
    ("POST", "/api/v1/partitions/attach?stream=access&date=2024"),
    ("POST", "/api/v1/partitions/retain"),
    ("POST", "/api/v1/partitions/compact"),
    ("GET", "/api/v1/indexes"),
    ("POST", "/api/v1/indexes/access/path"),
    ("DELETE", "/api/v1/indexes/access/path"),
    ("GET", "/api/v1/quarantine"),
    ("GET", "/api/v1/quarantine/explain"),
    ("POST", "/api/v1/quarantine/replay"),
    ("POST", "/api/v1/quarantine/drop"),
    ("GET", "/api/v1/rollups"),
    ("POST", "/api/v1/rollups/run"),
    ("POST", "/api/v1/rollups/stats/rebuild?from=2024&to=2025"),
    ("POST", "/api/v1/backup"),
    ("DELETE", "/api/v1/queries/1"),
    ("OPTIONS", "/api/v1/partitions"),
];

/// Starts a server with four events of 2024, two of them bad.
fn served(home: &Home, environment: &[(&str, &str)]) -> Server {
    let server = Server::start_with(&home.data, environment);
    let good = line("203.0.113.1", PAST_S, "/", 200, 10);
    server.ingest("access", good.repeat(2) + "bad\nbad too\n");
    server.seal();
    server
}

/// Returns the state that a stranger could change.
fn state(server: &Server) -> Value {
    json!({
        "events": server.number("SELECT count(*) FROM access"),
        "quarantined": server.number("SELECT count(*) FROM system.quarantine"),
        "partitions": server.get("/api/v1/partitions").status(200).json(),
        "indexes": server.get("/api/v1/indexes").status(200).json(),
        "streams": server.get("/api/v1/streams").status(200).json(),
    })
}

fn ask(server: &Server, (method, path): (&str, &str), headers: &str) -> (u16, String) {
    server.raw(&format!(
        "{method} {path} HTTP/1.1\r\n{headers}Connection: close\r\nContent-Length: 0\r\n\r\n"
    ))
}

#[test]
fn no_route_answers_a_foreign_request() {
    let home = Home::new();
    let server = served(&home, &[]);
    let before = state(&server);
    let host = format!("Host: {}\r\n", server.address);
    for (headers, status, code) in [
        ("Host: evil.example\r\n".to_owned(), 421, "foreign_host"),
        (format!("{host}Origin: null\r\n"), 403, "foreign_origin"),
        (
            format!("{host}Origin: http://127.0.0.1:1\r\nSec-Fetch-Site: same-site\r\n"),
            403,
            "foreign_origin",
        ),
        (
            format!("{host}Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n"),
            403,
            "foreign_origin",
        ),
    ] {
        for request in REQUESTS {
            let (found, body) = ask(&server, request, &headers);
            assert_eq!(found, status, "{request:?} {headers:?}: {body}");
            if request.0 != "HEAD" {
                let said: Value = serde_json::from_str(&body).expect("an error as JSON");
                assert_eq!(said["error"]["code"], code, "{request:?}: {said}");
                let hint = said["error"]["hint"].as_str().expect("a hint");
                assert!(hint.contains("server.hosts"), "{hint}");
            }
        }
    }
    assert_eq!(ask(&server, REQUESTS[0], "").0, 400, "without a Host");
    assert_eq!(state(&server), before);
}

#[test]
fn a_refusal_does_not_wait_for_the_body() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let (host, promised) = (&server.address, "Content-Length: 1000000");
    let (status, _) = server.raw(&format!(
        "POST /api/v1/ingest/access HTTP/1.1\r\nHost: {host}\r\nOrigin: null\r\n{promised}\r\n\r\nx"
    ));
    assert_eq!(status, 403);
}

#[test]
fn the_page_itself_curl_and_configured_names_are_answered() {
    let home = Home::new();
    let hosts = [("LOGMILL_SERVER__HOSTS", "[\"logs.example.org\"]")];
    let server = served(&home, &hosts);
    let address = &server.address;
    let port = address.rsplit(':').next().expect("a port");
    let get = ("GET", "/api/v1/streams");
    for headers in [
        format!("Host: {address}\r\n"),
        format!("Host: localhost:{port}\r\n"),
        "Host: logs.example.org\r\nOrigin: https://logs.example.org\r\n".to_owned(),
        format!("Host: {address}\r\nSec-Fetch-Site: none\r\n"),
        format!("Host: {address}\r\nOrigin: http://{address}\r\nSec-Fetch-Site: same-origin\r\n"),
    ] {
        let (status, body) = ask(&server, get, &headers);
        assert_eq!(status, 200, "{headers:?}: {body}");
    }
    let wrong = home.file(
        "logmill.toml",
        "[server]\nhosts = [\"https://a.example\"]\n",
    );
    let told = crate::support::run(&["config", "show", "--config", &wrong]).code(78);
    assert!(told.stderr.contains("[server] hosts"), "{}", told.stderr);
}

/// A page of another origin that does what it can to the server at `{server}`, and writes down
/// what it could read.
const STRANGER: &str = r#"<!doctype html><title>x</title><pre id=seen></pre><script type=module>
const base = "http://{server}", seen = [];
const ask = async (path, options) => {
  try {
    const answer = await fetch(base + path, options);
    seen.push(`${path} ${answer.type} ${answer.status} ${(await answer.text()).length}`);
  } catch (e) { seen.push(`${path} failed`); }
};
await ask("/api/v1/quarantine/drop", { method: "POST", mode: "no-cors" });
await ask("/api/v1/partitions/detach?stream=access&date=2024", { method: "POST", mode: "no-cors" });
await ask("/api/v1/partitions/compact", { method: "POST", mode: "no-cors", body: "x" });
await ask("/api/v1/partitions?stream=access&date=2024", { method: "DELETE" });
await ask("/api/v1/ingest/strangers", { method: "POST", mode: "no-cors", body: "{\"a\":1}\n" });
await ask("/api/v1/streams", { mode: "no-cors" });
await ask("/api/v1/streams", {});
await ask("/health", {});
const load = (name, set) => new Promise((done) => {
  const element = document.createElement(name);
  element.onload = () => { seen.push(`${name} loaded`); done(); };
  element.onerror = () => { seen.push(`${name} failed`); done(); };
  set(element);
  document.body.append(element);
});
await load("script", (e) => { e.src = base + "/page.js"; e.type = "text/javascript"; });
await load("iframe", (e) => { e.src = base + "/"; });
document.getElementById("seen").textContent = seen.join("\n") + "\nall done";
</script></html>"#;

/// Serves one page to any client, on a port of its own; its thread ends with the process.
fn stranger(page: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        for mut socket in listener.incoming().map_while(Result::ok) {
            let lines = BufReader::new(&socket).lines().map_while(Result::ok);
            let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            let answer = match head.first().is_some_and(|line| line.starts_with("GET / ")) {
                true => format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n{page}"
                ),
                false => "HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n".to_owned(),
            };
            // A browser may open a connection and send nothing.
            let _ignored = socket.write_all(answer.as_bytes());
        }
    });
    address
}

#[test]
fn a_page_from_another_port_changes_and_reads_nothing() {
    let Some(browser) = chromium() else { return };
    let home = Home::new();
    let server = served(&home, &[]);
    let before = state(&server);
    let evil = stranger(STRANGER.replace("{server}", &server.address));
    let (dom, log) = dump_with(browser, &home, &format!("http://{evil}/"), &[]);
    assert!(
        dom.contains("all done"),
        "the page did not end: {dom}\n{log}"
    );
    // The requests that no preflight stops were sent and answered, with nothing to read.
    assert!(dom.contains("/api/v1/quarantine/drop opaque 0 0"), "{dom}");
    assert!(dom.contains("script failed"), "{dom}");
    assert!(!dom.contains(" cors "), "a stranger could read: {dom}");
    assert_eq!(
        state(&server),
        before,
        "a stranger changed the store: {dom}"
    );
}

#[test]
fn a_name_that_was_rebound_to_this_machine_is_not_answered() {
    let Some(browser) = chromium() else { return };
    let home = Home::new();
    let server = served(&home, &[]);
    let port = server.address.rsplit(':').next().expect("a port");
    let rebound = "--host-resolver-rules=MAP evil.example 127.0.0.1";
    for path in ["/", "/api/v1/streams"] {
        let url = format!("http://evil.example:{port}{path}");
        let (dom, log) = dump_with(browser, &home, &url, &[rebound]);
        assert!(dom.contains("foreign_host"), "{path}: {dom}\n{log}");
    }
    // The same browser under the server's own name.
    let url = format!("http://localhost:{port}/api/v1/streams");
    let (dom, log) = dump_with(browser, &home, &url, &[rebound]);
    assert!(dom.contains("access"), "{dom}\n{log}");
}
