//! Secrets go through every way into the program, and are found in no file and no output.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::support::{Home, PAST_S, Server, command, line};

const PASSWORD: &str = "canary-password-Kh3vXw81";
const NEW_PASSWORD: &str = "canary-new-password-9GqTzb42";
const WRONG_PASSWORD: &str = "canary-wrong-password-Wm5Rsd77";
const TOKEN_LIKE: &str = "lm_canarytokenAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// All that the program has printed or answered, by its place.
#[derive(Default)]
struct Outputs(BTreeMap<String, Vec<u8>>);

impl Outputs {
    fn keep(&mut self, place: &str, bytes: &[u8]) {
        self.0.entry(place.to_owned()).or_default().extend(bytes);
    }

    /// Runs a command with the password in its environment; returns its standard output.
    fn run(&mut self, home: &Home, args: &[&str], password: &str) -> Vec<u8> {
        let mut command = command();
        command.args(args).args(["--data", &home.data]);
        command
            .env("LOGMILL_LOG", "trace")
            .env("LOGMILL_PASSWORD", password);
        let output = command.output().expect("it runs");
        self.keep(&format!("stderr of {args:?}"), &output.stderr);
        output.stdout
    }

    /// Sends a request; keeps its answer, but for what sets a cookie.
    fn ask(&mut self, server: &Server, request: &str, header: &str, body: &str) -> (u16, String) {
        let whole = server.raw_whole(&format!(
            "{request} HTTP/1.1\r\nHost: {}\r\n{header}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            server.address,
            body.len()
        ));
        let kept = whole
            .lines()
            .filter(|l| !l.to_ascii_lowercase().starts_with("set-cookie:"));
        self.keep(
            &format!("answer to {request}"),
            kept.collect::<String>().as_bytes(),
        );
        let status = whole.split(' ').nth(1).and_then(|s| s.parse().ok());
        (status.unwrap_or(0), whole)
    }
}

/// Reads every file below a directory.
fn files(dir: &Path, all: &mut Outputs) {
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, all);
        } else if let Ok(mut file) = std::fs::File::open(&path) {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).expect("readable");
            all.keep(&path.display().to_string(), &bytes);
        }
    }
}

fn holds(bytes: &[u8], secret: &[u8]) -> bool {
    bytes.windows(secret.len()).any(|window| window == secret)
}

/// Returns the forms in which a secret could lie somewhere.
fn forms(secret: &str) -> Vec<Vec<u8>> {
    let mut forms = vec![secret.as_bytes().to_vec()];
    let hex = secret
        .bytes()
        .map(|b| format!("{b:02x}"))
        .collect::<String>();
    forms.push(hex.to_ascii_uppercase().into_bytes());
    forms.push(hex.into_bytes());
    // Base 64 of a text depends on its place: without the bytes at both ends it is one of three.
    for shift in 0..3 {
        let padded = format!("{}{secret}", &"ann"[..shift]);
        let encoded = BASE64_STANDARD.encode(padded);
        let from = if shift == 0 { 0 } else { 4 };
        forms.push(encoded.as_bytes()[from..encoded.len() - 4].to_vec());
    }
    let wide = secret.bytes().flat_map(|b| [b, 0]).collect();
    forms.push(wide);
    forms
}

#[test]
fn no_secret_is_found_in_any_file_or_output() {
    let home = Home::new();
    let mut outputs = Outputs::default();
    outputs.run(&home, &["user", "add", "ann", "--role", "admin"], PASSWORD);
    let server = Server::start_with(&home.data, &[("LOGMILL_LOG", "trace")]);
    let made = outputs.run(
        &home,
        &[
            "token", "create", "shipper", "--role", "ingest", "--output", "json",
        ],
        "",
    );
    let made: Value = serde_json::from_slice(&made).expect("JSON");
    let token = made["token"].as_str().expect("a token").to_owned();

    let basic = |user: &str, password: &str| {
        let pair = BASE64_STANDARD.encode(format!("{user}:{password}"));
        format!("Authorization: Basic {pair}")
    };
    let bearer = format!("Authorization: Bearer {token}");
    let admin = basic("ann", PASSWORD);
    // Each way to carry a secret, right and wrong, to routes that succeed and that fail.
    let headers = [
        admin.clone(),
        basic("ann", WRONG_PASSWORD),
        basic("nobody", WRONG_PASSWORD),
        basic("any", &token),
        bearer.clone(),
        format!("X-API-Key: {token}"),
        format!("Authorization: Splunk {token}"),
        format!("Authorization: ApiKey {TOKEN_LIKE}"),
        format!("Authorization: Bearer {TOKEN_LIKE}"),
        format!("Authorization: Unknown {WRONG_PASSWORD}"),
        format!("Authorization: Basic {WRONG_PASSWORD}"),
        format!("Cookie: logmill_session={WRONG_PASSWORD}"),
        format!("{bearer}\r\nAuthorization: Bearer {TOKEN_LIKE}"),
        format!("{admin}\r\nContent-Length: {WRONG_PASSWORD}"),
    ];
    let event = line("203.0.113.1", PAST_S, "/", 200, 10);
    for header in &headers {
        for (request, body) in [
            ("POST /api/v1/ingest/web", &*event),
            ("POST /api/v1/sql", "SELECT * FROM system.users"),
            ("POST /api/v1/sql", "SELECT * FROM system.audit"),
            ("POST /api/v1/sql", "SELECT nothing FROM web"),
            ("GET /api/v1/users", ""),
            ("GET /api/v1/tokens", ""),
            ("GET /api/v1/session", ""),
            ("GET /api/v1/nothing", ""),
            ("GET /metrics", ""),
            ("DELETE /api/v1/tokens/nothing", ""),
        ] {
            outputs.ask(&server, request, header, body);
        }
    }
    let login = |password: &str| format!(r#"{{"user":"ann","password":"{password}"}}"#);
    let (status, answer) = outputs.ask(
        &server,
        "POST /api/v1/login",
        "Accept: */*",
        &login(PASSWORD),
    );
    assert_eq!(status, 200, "{answer}");
    let (_, cookie) = answer.split_once("logmill_session=").expect("a session");
    let session = cookie.split(';').next().expect("a value").to_owned();
    assert!(session.len() > 20, "{session}");
    let cookie = format!("Cookie: logmill_session={session}");
    let (status, _) = outputs.ask(&server, "POST /api/v1/sql", &cookie, "SELECT 1");
    assert_eq!(status, 200);
    for bad in [
        login(WRONG_PASSWORD),
        format!(r#"{{"user":"ann","password":"{WRONG_PASSWORD}""#),
        format!(r#"{{"user":"ann","passwort":"{WRONG_PASSWORD}"}}"#),
        format!(r#"{{"user":"ann","password":["{WRONG_PASSWORD}"]}}"#),
    ] {
        outputs.ask(&server, "POST /api/v1/login", "Accept: */*", &bad);
    }
    // A verifier that is none, which a client could take for the place of a password.
    for request in ["PUT /api/v1/users/bob", "PUT /api/v1/users/ann/password"] {
        for body in [
            format!(r#"{{"verifier":"{WRONG_PASSWORD}","role":"read"}}"#),
            format!(r#"{{"password":"{WRONG_PASSWORD}","role":"read"}}"#),
        ] {
            let (status, _) = outputs.ask(&server, request, &admin, &body);
            assert_eq!(status, 400, "{request} {body}");
        }
    }
    outputs.run(&home, &["user", "passwd", "ann"], NEW_PASSWORD);
    outputs.run(&home, &["user", "add", "short", "--role", "read"], "canary");
    for args in [
        &["user", "list"][..],
        &["token", "list"],
        &["token", "revoke", "shipper"],
        &["backup", "--to", &home.path("copy")],
        &["config", "show"],
        &["sql", "SELECT * FROM system.users"],
        &["sql", "SELECT * FROM system.audit"],
        &["sql", "SELECT * FROM system.queries"],
    ] {
        let output = outputs.run(&home, args, WRONG_PASSWORD);
        outputs.keep(&format!("{args:?}"), &output);
    }
    // A token from a file and from the environment, against a server.
    let mut ask = command();
    ask.args(["sql", "SELECT 1", "--server", &server.url]);
    ask.env("LOGMILL_TOKEN", TOKEN_LIKE)
        .env("LOGMILL_LOG", "trace");
    let output = ask.output().expect("it runs");
    outputs.keep("a refused command", &output.stderr);
    outputs.keep("a refused command", &output.stdout);
    outputs.keep("the server's log", server.log().as_bytes());
    server.kill();
    files(Path::new(&home.path("")), &mut outputs);

    assert!(outputs.0.len() > 40, "{} places", outputs.0.len());
    let operator = outputs
        .0
        .iter()
        .find(|(place, _)| place.ends_with("OPERATOR"));
    let operator = String::from_utf8(operator.expect("OPERATOR").1.clone()).expect("text");
    let operator = operator
        .split('"')
        .find(|t| t.starts_with("lm_"))
        .expect("a secret");
    for secret in [
        PASSWORD,
        NEW_PASSWORD,
        WRONG_PASSWORD,
        TOKEN_LIKE,
        &token,
        &session,
        operator,
    ] {
        let forms = forms(secret);
        for (place, bytes) in &outputs.0 {
            if place.ends_with("OPERATOR") && secret == operator {
                continue;
            }
            let found = forms.iter().any(|form| holds(bytes, form));
            assert!(
                !found,
                "{secret} is in {place}: {}",
                String::from_utf8_lossy(bytes)
            );
        }
    }
    // The search finds what is there.
    let mut planted = Vec::new();
    writeln!(
        planted,
        "x{}",
        BASE64_STANDARD.encode(format!("ann:{PASSWORD}"))
    )
    .expect("memory");
    assert!(forms(PASSWORD).iter().any(|form| holds(&planted, form)));
}
