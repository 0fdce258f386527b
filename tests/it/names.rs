//! Hostile names through every place where a name enters: a request is refused, or the name is data
//! and kept as it came. No file appears outside the store, and no line of the log is forged.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Home, PAST_S, PATIENCE, Server, command, finish, line};

/// Text that a name may put into the log, but not at the beginning of a line.
const FORGED: &str = "2031-01-01T00:00:00.000000Z ERROR forged by a name";
/// Part of the names of files that must not appear.
const ESCAPE: &str = "logmill_escape";

/// Returns names that are paths, commands, or look like other names.
fn hostile() -> Vec<String> {
    let mut names: Vec<String> = [
        "",
        ".",
        "..",
        " ",
        "%2e%2e%2f",
        "%252e%252e%252flogmill_escape",
        "..%2flogmill_escape",
        "../logmill_escape",
        "../../logmill_escape",
        "../../../logmill_escape",
        "..\\logmill_escape",
        "/tmp/logmill_escape",
        "C:\\logmill_escape",
        "\\\\logmill_escape\\share",
        "file:///tmp/logmill_escape",
        "logmill_escape\0",
        "web\0.log",
        "web/../logmill_escape",
        "web/",
        "./web",
        "-logmill_escape",
        "--data=/tmp/logmill_escape",
        "; DROP TABLE web",
        "' OR '1'='1",
        "\"; SELECT 1; --",
        "$(touch logmill_escape)",
        "`touch logmill_escape`",
        "${jndi:ldap://logmill_escape}",
        "{{7*7}}",
        "%s%n",
        "CON",
        "nul.txt",
        "web ",
        "WEB",
        // Look-alikes: Cyrillic, full width, a combining mark, hidden marks of direction and space.
        "w\u{435}b",
        "\u{ff57}eb",
        "we\u{0301}b",
        "name\u{202e}gol.exe",
        "web\u{200b}",
        "\u{feff}web",
        "web\u{2028}x",
        "web\u{85}x",
        "web\u{1b}[2J\u{7}",
        "web\u{7f}",
    ]
    .map(str::to_owned)
    .into();
    names.push(format!("web\n{FORGED}"));
    names.push(format!("web\r\n{FORGED}"));
    names.push(format!("web\r{FORGED}"));
    names.push("../".repeat(12) + "tmp/logmill_escape");
    names.push("n".repeat(64));
    names.push("n".repeat(64 << 10));
    names
}

/// Encodes every byte of a text but for digits and letters.
fn encoded(text: &str) -> String {
    let encode = |b: u8| match b.is_ascii_alphanumeric() {
        true => char::from(b).to_string(),
        false => format!("%{b:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// Returns the spellings of a name in the target of a request: encoded, and as it stands where the
/// grammar of HTTP has it.
fn spellings(name: &str) -> Vec<String> {
    let mut all = vec![encoded(name)];
    if !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic()) {
        all.push(name.to_owned());
    }
    all
}

/// A server in a folder of its own, some levels below the one that is watched.
struct Watched {
    home: Home,
    data: String,
    server: Server,
    /// The header of an administrator.
    admin: String,
    before: BTreeSet<String>,
}

impl Watched {
    fn start() -> Self {
        Self::start_with("trace")
    }

    fn start_with(log: &str) -> Self {
        let home = Home::new();
        let work = home.path("a/b/c/work");
        std::fs::create_dir_all(&work).expect("a directory");
        let data = format!("{work}/data");
        let mut program = command();
        program.current_dir(&work).env("LOGMILL_LOG", log);
        let server = Server::try_start(program, &data, &[]).expect("it serves");
        let event = line("203.0.113.1", PAST_S, "/", 200, 10);
        server.ingest("web", event.clone() + "bad\n");
        let created = server.post("/api/v1/tokens/admin", &[], br#"{"role":"admin"}"#);
        let token = created.status(200).json()["token"].clone();
        let admin = format!("Authorization: Bearer {}", token.as_str().expect("a token"));
        let mut this = Self {
            before: BTreeSet::new(),
            home,
            data,
            server,
            admin,
        };
        this.before = this.outside();
        this
    }

    /// Returns the status of the answer to a request, and its body; of an answer without an end
    /// the first bytes.
    fn send(&self, method: &str, target: &str, headers: &str, body: &str) -> (u16, String) {
        let mut socket = TcpStream::connect(&self.server.address).expect("it listens");
        let waits = socket.set_read_timeout(Some(PATIENCE));
        waits.expect("a socket that can wait");
        let host = &self.server.address;
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: {host}\r\n{}\r\n{headers}Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
            self.admin,
            body.len()
        );
        // A request that is refused need not be read to its end.
        let _ignored = socket.write_all(request.as_bytes());
        let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
        while let Ok(read @ 1..) = socket.read(&mut piece) {
            answer.extend_from_slice(&piece[..read]);
            if answer.windows(17).any(|text| text == b"text/event-stream") {
                break;
            }
        }
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|s| s.parse().ok());
        let status = status.unwrap_or_else(|| panic!("{method} {target:.200}: {answer:?}"));
        let body = answer
            .split_once("\r\n\r\n")
            .map(|(_, body)| body.to_owned());
        (status, body.unwrap_or_default())
    }

    fn json(&self, method: &str, target: &str, body: &Value) -> (u16, String) {
        let kind = "Content-Type: application/json\r\n";
        self.send(method, target, kind, &body.to_string())
    }

    /// Returns every path below the watched folder that is not the store's.
    fn outside(&self) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        let root = self.home.path("");
        walk(Path::new(&root), &mut |path| {
            let shown = path.display().to_string();
            let is_inside = shown.starts_with(&format!("{}/", self.data));
            all.extend((!is_inside).then_some(shown));
        });
        all
    }

    /// Checks that nothing has appeared where it should not be, and that the server still answers.
    fn check(&self) {
        let (status, body) = self.send("GET", "/api/v1/streams", "", "");
        assert_eq!(status, 200, "{body}");
        assert_eq!(self.outside(), self.before, "a file outside the store");
        for place in [
            "/tmp",
            "/",
            env!("CARGO_TARGET_TMPDIR"),
            env!("CARGO_MANIFEST_DIR"),
        ] {
            for entry in std::fs::read_dir(place).expect("a directory") {
                let name = entry.expect("an entry").file_name();
                let name = name.to_string_lossy();
                assert!(!name.contains(ESCAPE), "{name} in {place}");
            }
        }
        let data = Path::new(&self.data);
        walk(data, &mut |path| {
            let inside = path.strip_prefix(data).expect("below it");
            let inside = inside.to_str().expect("UTF-8");
            let allowed = |b: u8| b.is_ascii_alphanumeric() || b"/._=%-".contains(&b);
            assert!(inside.bytes().all(allowed), "{inside:?}");
            assert!(
                !inside.split('/').any(|part| part.starts_with('.')),
                "{inside}"
            );
            // A field of documents may have any name; its bytes are written as digits.
            let is_index = inside.starts_with("indexes/docs/");
            assert!(is_index || !inside.contains(ESCAPE), "{inside}");
            let mut parts = inside.split('/');
            let (first, second) = (parts.next().unwrap_or(""), parts.next());
            if let ("streams" | "rollups" | "indexes" | "detached", Some(owner)) = (first, second) {
                let known = [
                    "web",
                    "docs",
                    "_quarantine",
                    "stats",
                    "traffic",
                    "docs_stats",
                    "docs_traffic",
                ];
                let is_file = data.join(first).join(owner).is_file();
                assert!(is_file || known.contains(&owner), "{inside}");
            }
        });
        let log = self.server.log();
        for line in log.lines() {
            assert!(!line.starts_with(FORGED), "a forged line: {line}");
            let is_raw = |c: char| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c);
            let raw = line.chars().find(|c| is_raw(*c));
            assert_eq!(raw, None, "a control character in the log: {line:?}");
        }
    }
}

fn walk(dir: &Path, see: &mut impl FnMut(&Path)) {
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        see(&path);
        // A file may go while the server works.
        if path.is_dir() {
            walk(&path, see);
        }
    }
}

/// Returns a value that the parameter may have.
fn valid(parameter: &str) -> &'static str {
    match parameter {
        "stream" => "web",
        "producer" => "file:web:known",
        "date" => "2024-03-01",
        "from" => "1",
        "to" | "seq" => "2",
        "dry_run" => "true",
        _ => "",
    }
}

/// Parameters whose text is data (it is kept or compared), is a query, or means nothing to us.
const DATA: [&str; 16] = [
    "site",
    "source",
    "producer",
    "prefix",
    "reason",
    "query",
    "match[]",
    "metric",
    "stats",
    "type",
    "rule_name[]",
    "rule_group[]",
    "file[]",
    "exclude_alerts",
    "group_limit",
    "group_next_token",
];

/// The routes are those of the table that the router has to equal, and the server itself tells the
/// parameters of each.
#[test]
fn a_hostile_name_in_the_target_of_any_route_is_refused_or_data() {
    let watched = Watched::start();
    let table = include_str!("../fixtures/rights.txt");
    let mut asked = 0;
    for route in table.lines().filter(|line| !line.starts_with('#')) {
        let mut words = route.split_whitespace();
        let (method, path) = (
            words.next().expect("a method"),
            words.next().expect("a path"),
        );
        // These have the handlers and the parameters of those at the root.
        if path.starts_with("/elasticsearch/_") || path.starts_with("/elasticsearch/{") {
            continue;
        }
        let known = |path: &str| path.replace("{stream}", "web").replace("{id}", "0");
        let known = |path: &str| {
            known(path)
                .replace("{field}", "path")
                .replace("{name}", "web")
                .replace("{index}", "web")
        };
        let (_, told) = watched.send(method, &(known(path) + "?nonsense="), "", "");
        let told: Value = serde_json::from_str(&told).unwrap_or_default();
        // An error in the form of Prometheus' API is one text.
        let hint = told["error"]["hint"].as_str().or(told["error"].as_str());
        // So is one in those of Splunk's collector and of OTLP.
        let hint = hint.or(told["text"].as_str()).or(told["message"].as_str());
        let hint = hint.unwrap_or_default();
        let (_, parameters) = hint
            .split_once(" takes ")
            .expect("the parameters of the route");
        let parameters = parameters.split(';').next().unwrap_or_default();
        let parameters: Vec<&str> = match parameters.starts_with("no parameters") {
            true => Vec::new(),
            false => parameters.split(", ").collect(),
        };
        let body = if path.contains("ingest") { "" } else { "{}" };
        let mut check = |target: &str, is_data: bool| {
            let (status, answer) = watched.send(method, target, "", body);
            let refused = (400..500).contains(&status);
            assert!(
                refused || (is_data && status == 200),
                "{method} {target:.200}: {status} {answer}"
            );
            asked += 1;
        };
        for name in hostile() {
            for spelling in spellings(&name) {
                for slot in path.split('/').filter(|part| part.starts_with('{')) {
                    // A label that no series has is one without values.
                    let is_label = path.contains("/label/");
                    // Nothing is kept under the names of Elasticsearch's storage.
                    let is_label = is_label || path.contains("/_");
                    check(&known(&path.replace(slot, &spelling)), is_label);
                }
            }
            for parameter in &parameters {
                let others = parameters.iter().filter(|other| *other != parameter);
                let others = others.filter(|other| !valid(other).is_empty());
                let mut target = format!("{}?{parameter}={}", known(path), encoded(&name));
                for other in others {
                    target += &format!("&{other}={}", valid(other));
                }
                // An empty value is a parameter that was left out.
                let is_empty = name.trim().is_empty();
                // Parameters of Elasticsearch have no effect, and Splunk's are metadata of events.
                let is_foreign = path.contains("/_") || path.starts_with("/services/");
                let is_foreign = is_foreign || path.starts_with("/elasticsearch");
                check(&target, DATA.contains(parameter) || is_empty || is_foreign);
            }
        }
    }
    assert!(asked > 3_500, "{asked}");
    println!("{asked} requests with a hostile name");
    watched.check();
}

#[test]
fn a_hostile_name_in_a_body_or_a_header_is_refused_or_kept_as_it_came() {
    let watched = Watched::start();
    let refused = |(status, answer): (u16, String), what: &str, name: &str| {
        assert!(
            (400..500).contains(&status),
            "{what} {name:.200?}: {status} {answer}"
        );
    };
    let verifier = format!(
        "SCRAM-SHA-256$32768:{}$A{}=:{0}{0}AAAAAAAAAAAA=",
        "AAAAAAAAAAAAAAAAAAAAAA==",
        "A".repeat(42)
    );
    let event = line("203.0.113.2", PAST_S, "/", 200, 10);
    for name in hostile() {
        // Accounts: roles, streams and users. A pattern of streams may be longer than a name.
        let is_pattern = !name.is_empty() && name.len() <= 128 && name.bytes().all(|b| b == b'n');
        let role = json!({ "role": name });
        let stream = (!is_pattern).then(|| json!({"role": "read", "streams": [name]}));
        for body in [Some(role), stream].into_iter().flatten() {
            refused(
                watched.json("POST", "/api/v1/tokens/t", &body),
                "token",
                &name,
            );
            let mut user = body;
            user["verifier"] = verifier.as_str().into();
            refused(watched.json("PUT", "/api/v1/users/u", &user), "user", &name);
        }
        let password = json!({ "verifier": name });
        refused(
            watched.json("PUT", "/api/v1/users/u/password", &password),
            "verifier",
            &name,
        );
        let login = json!({"user": name, "password": "wrong"});
        refused(
            watched.json("POST", "/api/v1/login", &login),
            "login",
            &name,
        );
        // A backup goes where an administrator says, but not into the store, nor relative to the
        // directory in which the server happens to run.
        if !name.starts_with('/') {
            refused(
                watched.json("POST", "/api/v1/backup", &json!({ "dir": name })),
                "backup",
                &name,
            );
        }
        let inside = format!("{}/streams/../{name}", watched.data);
        if !name.contains("..") {
            refused(
                watched.json("POST", "/api/v1/backup", &json!({ "dir": inside })),
                "inside",
                &name,
            );
        }
        // SQL: an identifier is no table, and a parameter is a text.
        let quoted = format!("SELECT * FROM \"{}\"", name.replace('"', "\"\""));
        refused(
            watched.send("POST", "/api/v1/sql", "", &quoted),
            "table",
            &name,
        );
        let asked = json!({"sql": "SELECT $1 AS name", "params": [name]});
        let (status, answer) = watched.json("POST", "/api/v1/sql", &asked);
        if name.len() < 60_000 {
            let answer: Value = serde_json::from_str(&answer).expect("JSON");
            assert_eq!((status, &answer["rows"]), (200, &json!([{ "name": name }])));
        }
        // Headers.
        let is_header = name.bytes().all(|b| b >= b' ' && b != 0x7f) && name.len() < 8_000;
        for header in [
            "Idempotency-Key",
            "X-Logmill-Tag",
            "Accept",
            "User-Agent",
            "Cookie",
        ] {
            let header = format!("{header}: {name}\r\n");
            if !is_header {
                // Some of these are several headers, and none is a reason to fail.
                let (status, answer) = watched.send("POST", "/api/v1/sql", &header, "SELECT 1");
                assert!(status < 500, "{name:.200?}: {status} {answer}");
                continue;
            }
            let target = "/api/v1/ingest/web";
            let (status, answer) = watched.send("POST", target, &header, &event);
            assert!(status < 500, "{header}: {status} {answer}");
            let (status, answer) = watched.send("POST", "/api/v1/sql", &header, "SELECT 1");
            assert!(status < 500, "{header}: {status} {answer}");
        }
        if is_header && !name.trim().is_empty() {
            for header in ["Host", "Origin", "Content-Encoding", "Sec-Fetch-Site"] {
                let header = format!("{header}: {name}\r\n");
                let target = "/api/v1/ingest/web";
                refused(
                    watched.send("POST", target, &header, &event),
                    &header,
                    &name,
                );
            }
        }
    }
    watched.check();
}

#[test]
fn a_hostile_name_that_is_data_is_kept_as_it_came() {
    // The log for debugging has names of fields as they are.
    let watched = Watched::start_with("logmill=info,warn");
    let event = line("203.0.113.3", PAST_S, "/", 200, 10);
    let rows = |sql: &str, params: &Value| {
        let asked = json!({ "sql": sql, "params": params });
        let (status, answer) = watched.json("POST", "/api/v1/sql", &asked);
        assert_eq!(status, 200, "{answer}");
        let mut answer: Value = serde_json::from_str(&answer).expect("JSON");
        answer["rows"].take()
    };
    let (mut kept, mut fields) = (0, Vec::new());
    for (at, name) in hostile().iter().enumerate() {
        let text = encoded(name);
        for parameter in ["site", "source"] {
            let host = format!("198.51.100.{at}");
            let event = event.replace("203.0.113.3", &host);
            let target = format!("/api/v1/ingest/web?{parameter}={text}");
            let (status, answer) = watched.send("POST", &target, "", &event);
            // Longer ones are refused.
            if status != 200 {
                assert!(
                    status == 400 || (status == 431 || status == 414) && name.len() > 1024,
                    "{answer}"
                );
                continue;
            }
            if parameter == "site" {
                let found = rows(
                    "SELECT site FROM web WHERE host = $1 AND site IS NOT NULL",
                    &json!([host]),
                );
                let expected = match name.is_empty() {
                    true => json!([]),
                    false => json!([{ "site": name }]),
                };
                assert!(
                    found == expected || found == json!([{ "site": "" }]),
                    "{name:?}: {found}"
                );
                kept += 1;
            }
        }
        let target = format!(
            "/api/v1/ingest/web?producer={text}&from=0&to={}",
            event.len()
        );
        let (status, _) = watched.send("POST", &target, "", &event);
        if status == 200 {
            let target = format!("/api/v1/sources?producer={text}");
            let (status, answer) = watched.send("GET", &target, "", "");
            let answer: Value = serde_json::from_str(&answer).expect("JSON");
            assert_eq!(
                (status, &answer["to"]),
                (200, &json!(event.len())),
                "{name:?}"
            );
            let found = rows(
                "SELECT position FROM system.sources WHERE producer = $1",
                &json!([name]),
            );
            assert_eq!(found, json!([{ "position": event.len() }]), "{name:?}");
            kept += 1;
        }
        // The name of a field becomes a column, and its index a folder.
        let document = json!({"time": "2024-03-01T00:00:00Z", name: format!("value {at}")});
        let target = "/api/v1/ingest/docs?format=json";
        let (status, answer) = watched.send("POST", target, "", &document.to_string());
        let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
        let is_column = !name.is_empty() && name.len() < 1024;
        if status == 200 && answer["accepted"] == 1 && is_column {
            let sql = format!(
                "SELECT count(*) AS n FROM docs WHERE \"{}\" = $1",
                name.replace('"', "\"\"")
            );
            let found = rows(&sql, &json!([format!("value {at}")]));
            assert_eq!(found, json!([{ "n": 1 }]), "{name:?}");
            let target = format!("/api/v1/indexes/docs/{text}");
            let (status, answer) = watched.send("POST", &target, "", "");
            assert!(status < 500, "{name:?}: {answer}");
            fields.extend((status == 202).then_some(name.clone()));
        }
    }
    assert!(kept > 60 && fields.len() > 20, "{kept} {fields:?}");
    // The folders of the indexes appear with the parts.
    assert_eq!(watched.send("POST", "/api/v1/rollups/run", "", "").0, 200);
    let built = || {
        let built = rows(
            "SELECT count(DISTINCT field) AS n FROM system.indexes WHERE parts > 0",
            &json!([]),
        );
        built[0]["n"].as_u64().unwrap_or(0)
    };
    let until = std::time::Instant::now() + PATIENCE;
    while built() < fields.len() as u64 && std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    watched.check();
}

/// Commands with the place `@` of a name; `DATA` ends those in which some hostile names are valid.
const COMMANDS: [&str; 39] = [
    "import {file} --stream @",
    "import {file} --stream web --format @",
    "import {file} --stream web --tz @",
    "import {file} --stream web --w @",
    "sql @",
    "slice --stream web --date 2024-03-01 --host @ DATA",
    "slice --stream web --host x --date @",
    "slice --stream @ --host x --date 2024-03-01",
    "slice --stream web --host x --date 2024-03-01 --tz @",
    "stream schema @",
    "stream suggest-shard-key @ --shards 4",
    "stream suggest-shard-key web --shards 4 --key @",
    "partition list @ DATA",
    "partition drop @ 2024-03-01 --dry-run",
    "partition drop web @ --dry-run",
    "partition detach @ 2024-03-01",
    "partition attach @ 2024-03-01",
    "partition attach web @",
    "partition retain @ --dry-run",
    "partition compact @",
    "index list @ DATA",
    "index create @ path",
    "index create web @",
    "index drop @ path",
    "index drop web @",
    "quarantine list --stream @",
    "quarantine list --reason @ DATA",
    "quarantine explain --stream @",
    "quarantine replay --stream web --format @",
    "quarantine drop --stream web --before @ --dry-run",
    "rollup verify @",
    "rollup rebuild @ --from 2024-03-01 --to 2024-03-02",
    "rollup drop @",
    "rollup redefine @",
    "user remove @",
    "token revoke @",
    "token create t --role read --stream @",
    "user add u --role read --stream @ --password-file {password}",
    "tls self-signed --out {tls} --name @ DATA",
];

#[test]
fn a_hostile_name_on_the_command_line_ends_the_command_cleanly() {
    let watched = Watched::start();
    let work = Path::new(&watched.data).parent().expect("above");
    let file = watched
        .home
        .file("lines.log", line("203.0.113.4", PAST_S, "/", 200, 10));
    let password = watched.home.file("password", "a-password\n");
    let tls = watched.home.path("tls");
    std::fs::create_dir(&tls).expect("a directory");
    let before = watched.outside();
    let mut names = hostile();
    names.retain(|name| !name.contains('\0') && name.len() < 60_000);
    let run = |args: &[String]| {
        let mut program = command();
        program.current_dir(work).args(args);
        program.args(["--data", &watched.data]);
        finish(&mut program, b"")
    };
    let each = |(at, pattern): (usize, &&str)| {
        // A quarter of the names with each command, all of them with four: the test stays short.
        for name in names
            .iter()
            .enumerate()
            .filter(|(n, _)| n % 4 == at % 4)
            .map(|(_, n)| n)
        {
            let (pattern, is_data) = match pattern.strip_suffix(" DATA") {
                Some(pattern) => (pattern, true),
                None => (*pattern, false),
            };
            let args: Vec<String> = pattern
                .split(' ')
                .map(|arg| match arg {
                    "@" => name.clone(),
                    "{file}" => file.clone(),
                    "{password}" => password.clone(),
                    "{tls}" => tls.clone(),
                    other => other.to_owned(),
                })
                .collect();
            let ended = run(&args);
            let is_clean = matches!(ended.code, 1 | 2 | 78) || (is_data && ended.code == 0);
            let is_option = name.starts_with("--data=");
            assert!(is_clean || is_option, "{args:?}: {ended:?}");
            assert!(!ended.stderr.contains("panicked"), "{args:?}: {ended:?}");
        }
    };
    std::thread::scope(|scope| {
        let half = COMMANDS.len() / 2;
        for part in [&COMMANDS[..half], &COMMANDS[half..]] {
            let each = &each;
            scope.spawn(move || part.iter().enumerate().for_each(each));
        }
    });
    // Names of sections of the configuration.
    for name in names.iter().filter(|name| !name.is_empty()) {
        let key = serde_json::to_string(name).expect("a text");
        for section in ["stream", "rollup"] {
            let config = format!("[{section}.{key}]\n");
            let file = watched.home.file("logmill.toml", config);
            let ended = run(&["--config".into(), file, "config".into(), "show".into()]);
            assert_eq!(ended.code, 78, "{section} {name:?}: {ended:?}");
        }
    }
    std::fs::remove_file(watched.home.path("logmill.toml")).expect("written above");
    let mut after = watched.outside();
    after.retain(|path| !before.contains(path) && !path.starts_with(&tls));
    assert_eq!(after, BTreeSet::new(), "a file outside the store");
    std::fs::remove_file(file).expect("written above");
    std::fs::remove_file(password).expect("written above");
    std::fs::remove_dir_all(tls).expect("created above");
    watched.check();
}

/// JSON in one another, 100,000 levels deep, wherever a body is JSON: no stack ends.
#[test]
fn bodies_of_deep_json_are_refused() {
    let watched = Watched::start();
    let deep = |open: &str, close: &str| open.repeat(100_000) + "1" + &close.repeat(100_000);
    let bodies = [
        deep("[", "]"),
        deep("{\"a\":", "}"),
        // Within the bytes that every route takes.
        "[".repeat(12_000),
        format!("{{\"a\":{}", "[".repeat(12_000)),
    ];
    for body in &bodies {
        for (method, target) in [
            ("POST", "/api/v1/sql"),
            ("POST", "/api/v1/login"),
            ("POST", "/api/v1/backup"),
            ("PUT", "/api/v1/users/u"),
            ("PUT", "/api/v1/users/u/password"),
            ("POST", "/api/v1/tokens/t"),
        ] {
            let kind = "Content-Type: application/json\r\n";
            let (status, answer) = watched.send(method, target, kind, body);
            assert!(
                (400..500).contains(&status),
                "{method} {target}: {status} {answer:.200}"
            );
        }
        let asked = format!(r#"{{"sql": "SELECT $1", "params": [{body}]}}"#);
        let (status, answer) = watched.send("POST", "/api/v1/sql", "", &asked);
        assert!((400..500).contains(&status), "{status} {answer:.200}");
    }
    // As events they are quarantined, and the event beside them is stored.
    let event = r#"{"time":"2024-03-01T00:00:00Z","a":1}"#;
    let lines = format!("{}\n{event}\n", bodies[1]);
    let (status, answer) = watched.send("POST", "/api/v1/ingest/deep?format=json", "", &lines);
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    assert_eq!((status, &answer["accepted"]), (200, &json!(1)), "{answer}");
    assert_eq!(
        answer["quarantined_by_reason"],
        json!({"too_deep": 1}),
        "{answer}"
    );
    let (status, answer) = watched.send("GET", "/api/v1/streams", "", "");
    assert_eq!(status, 200, "{answer}");
}
