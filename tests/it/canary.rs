//! Secrets go through every way into the program, and are found in no file and no output.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::support::{Home, PAST_S, Server, command, finish, line, python};
use crate::tls::exchange;

const PASSWORD: &str = "canary-password-Kh3vXw81";
const NEW_PASSWORD: &str = "canary-new-password-9GqTzb42";
const WRONG_PASSWORD: &str = "canary-wrong-password-Wm5Rsd77";
const FILE_PASSWORD: &str = "canary-file-password-b8NcYt16";
const TYPED_PASSWORD: &str = "canary-typed-password-Jd4Lqp93";
const TOKEN_LIKE: &str = "lm_canarytokenAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const HASH_KEY: &str = "canary-hash-key-Vt7Mzr25-with-more-than-32-bytes";
const SHORT_KEY: &str = "canary-short-key-Xy61";

/// Answers the prompts of a command on a terminal of its own, and prints what the terminal shows.
const TYPIST: &str = r#"
import os, pty, sys, termios, time
word, args = sys.argv[1], sys.argv[2:]
child, terminal = pty.fork()
if child == 0:
    os.execvp(args[0], args)
shown, answered = b"", 0
while True:
    try:
        piece = os.read(terminal, 1024)
    except OSError:
        break
    if not piece:
        break
    shown += piece
    if shown.count(b": ") > answered and answered < 2:
        answered += 1
        # As a person would, later than the command takes to stop the echo.
        for _ in range(6000):
            if not termios.tcgetattr(terminal)[3] & termios.ECHO:
                break
            time.sleep(0.01)
        os.write(terminal, word.encode() + b"\n")
os.write(1, shown)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"#;

/// All that the program has printed or answered, by its place.
#[derive(Default)]
struct Outputs(BTreeMap<String, Vec<u8>>);

impl Outputs {
    fn keep(&mut self, place: &str, bytes: &[u8]) {
        let kept = self.0.entry(place.to_owned()).or_default();
        kept.extend(bytes);
        kept.push(b'\n');
    }

    /// Runs a command in the home, with a password in its environment. Keeps its messages; returns
    /// its standard output.
    fn run(&mut self, home: &Home, args: &[&str], password: &str) -> Vec<u8> {
        let mut command = here(home);
        command.args(args).args(["--data", &home.data]);
        command.env("LOGMILL_PASSWORD", password);
        let output = command.output().expect("it runs");
        self.keep(&format!("stderr of {args:?}"), &output.stderr);
        output.stdout
    }

    /// Runs a command and keeps all of its output.
    fn tell(&mut self, name: &str, command: &mut Command) -> i32 {
        let output = finish(command, b"");
        self.keep(name, output.stdout.as_bytes());
        self.keep(name, output.stderr.as_bytes());
        output.code
    }

    /// Sends a request; keeps its answer, but for what sets a cookie or shows a new token.
    fn ask(&mut self, door: &Door, request: &str, header: &str, body: &str) -> (u16, String) {
        let whole = door.exchange(&format!(
            "{request} HTTP/1.1\r\nHost: {}\r\n{header}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            door.server.address,
            body.len()
        ));
        let kept = whole
            .lines()
            .filter(|l| !l.to_ascii_lowercase().starts_with("set-cookie:"));
        let place = format!("answer to {request} at {}", door.server.url);
        self.keep(&place, kept.collect::<Vec<_>>().join("\n").as_bytes());
        let status = whole.split(' ').nth(1).and_then(|s| s.parse().ok());
        (status.unwrap_or(0), whole)
    }
}

/// Returns the binary, about to run in the home with its configuration and a full log.
fn here(home: &Home) -> Command {
    let mut command = command();
    command
        .current_dir(home.path(""))
        .env("LOGMILL_LOG", "trace");
    command
}

/// A server, with the certificate of its TLS where it has one.
struct Door {
    server: Server,
    certificate: Option<String>,
}

impl Door {
    fn open(home: &Home, tls: Option<(&str, &str)>) -> Self {
        let environment: Vec<(&str, &str)> = match tls {
            None => Vec::new(),
            Some((cert, key)) => vec![("LOGMILL_TLS__CERT", cert), ("LOGMILL_TLS__KEY", key)],
        };
        let server = Server::try_start(here(home), &home.data, &environment);
        Self {
            server: server.expect("it serves"),
            certificate: tls.map(|(cert, _)| cert.to_owned()),
        }
    }

    fn exchange(&self, request: &str) -> String {
        match &self.certificate {
            None => self.server.raw_whole(request),
            Some(file) => {
                let trusted = std::fs::read_to_string(file).expect("a certificate");
                exchange(&self.server.address, &trusted, request)
            }
        }
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
    memchr::memmem::find(bytes, secret).is_some()
}

/// Returns the forms in which a secret could lie somewhere.
fn forms(secret: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = vec![secret.to_vec()];
    let hex: String = secret.iter().map(|b| format!("{b:02x}")).collect();
    forms.push(hex.to_ascii_uppercase().into_bytes());
    forms.push(hex.into_bytes());
    // A list of numbers, as derived formats show bytes.
    let shown = format!("{secret:?}");
    forms.push(shown.trim_matches(['[', ']']).as_bytes().to_vec());
    // Base 64 of a text depends on its place: without the bytes at both ends it is one of three.
    for shift in 0..3 {
        let padded = [&b"ann"[..shift], secret].concat();
        let encoded = BASE64_STANDARD.encode(padded);
        let from = if shift == 0 { 0 } else { 4 };
        forms.push(encoded.as_bytes()[from..encoded.len() - 4].to_vec());
    }
    forms.push(secret.iter().flat_map(|b| [*b, 0]).collect());
    forms
}

/// A secret, and the ends of the names of files that hold it rightly.
struct Secret {
    name: &'static str,
    bytes: Vec<u8>,
    kept_in: &'static [&'static str],
}

fn secret(name: &'static str, bytes: impl AsRef<[u8]>, kept_in: &'static [&'static str]) -> Secret {
    let bytes = bytes.as_ref().to_vec();
    assert!(bytes.len() > 15, "{name} could be found by chance");
    Secret {
        name,
        bytes,
        kept_in,
    }
}

fn basic(user: &str, password: &str) -> String {
    let pair = BASE64_STANDARD.encode(format!("{user}:{password}"));
    format!("Authorization: Basic {pair}")
}

/// Sends each way to carry a secret, right and wrong, to routes that succeed and that fail.
fn send_credentials(outputs: &mut Outputs, door: &Door, password: &str, tokens: [&str; 2]) {
    let [token, expired] = tokens;
    let bearer = format!("Authorization: Bearer {token}");
    let admin = basic("ann", password);
    let headers = [
        admin.clone(),
        basic("ann", WRONG_PASSWORD),
        basic("nobody", WRONG_PASSWORD),
        basic("any", token),
        basic(token, ""),
        basic(TOKEN_LIKE, "x"),
        bearer.clone(),
        format!("X-API-Key: {token}"),
        format!("Authorization: Splunk {token}"),
        format!("Authorization: Bearer {expired}"),
        format!("Authorization: ApiKey {TOKEN_LIKE}"),
        format!("Authorization: Bearer {TOKEN_LIKE}"),
        format!("Authorization: Unknown {WRONG_PASSWORD}"),
        format!("Authorization: Basic {WRONG_PASSWORD}"),
        format!("Authorization: {WRONG_PASSWORD}"),
        format!("Cookie: logmill_session={WRONG_PASSWORD}"),
        format!("{bearer}\r\nAuthorization: Bearer {TOKEN_LIKE}"),
        format!("{admin}\r\nContent-Length: {WRONG_PASSWORD}"),
    ];
    let event = line("203.0.113.1", PAST_S, "/", 200, 10);
    for header in &headers {
        for (request, body) in [
            ("POST /api/v1/ingest/web", &*event),
            ("POST /api/v1/ingest/web?format=nothing", &event),
            ("POST /api/v1/sql", "SELECT * FROM system.users"),
            ("POST /api/v1/sql", "SELECT * FROM system.audit"),
            ("POST /api/v1/sql", "SELECT * FROM system.queries"),
            ("POST /api/v1/sql", "SELECT * FROM system.sources"),
            ("POST /api/v1/sql", "SELECT * FROM system.maintenance"),
            (
                "POST /api/v1/sql",
                "SELECT * FROM information_schema.df_settings",
            ),
            ("POST /api/v1/sql", "SELECT nothing FROM web"),
            ("GET /api/v1/users", ""),
            ("GET /api/v1/tokens", ""),
            ("GET /api/v1/session", ""),
            ("GET /api/v1/nothing", ""),
            ("GET /metrics", ""),
            ("DELETE /api/v1/tokens/nothing", ""),
        ] {
            outputs.ask(door, request, header, body);
        }
    }
    let (status, answer) = outputs.ask(door, "GET /metrics", &admin, "");
    assert_eq!(status, 200, "{answer}");
}

/// Logs in with the page's form, well and badly. Returns the session.
fn log_in(outputs: &mut Outputs, door: &Door, password: &str) -> String {
    let login = |password: &str| format!(r#"{{"user":"ann","password":"{password}"}}"#);
    let at = "POST /api/v1/login";
    let (status, answer) = outputs.ask(door, at, "Accept: */*", &login(password));
    assert_eq!(status, 200, "{answer}");
    let (_, cookie) = answer.split_once("logmill_session=").expect("a session");
    let session = cookie.split(';').next().expect("a value").to_owned();
    let cookie = format!("Cookie: logmill_session={session}");
    let (status, _) = outputs.ask(door, "POST /api/v1/sql", &cookie, "SELECT 1");
    assert_eq!(status, 200);
    for bad in [
        login(WRONG_PASSWORD),
        format!(r#"{{"user":"ann","password":"{WRONG_PASSWORD}""#),
        format!(r#"{{"user":"ann","passwort":"{WRONG_PASSWORD}"}}"#),
        format!(r#"{{"user":"ann","password":["{WRONG_PASSWORD}"]}}"#),
        format!(r#"{{"user":["{WRONG_PASSWORD}"],"password":"x"}}"#),
        format!(r#"{{"{WRONG_PASSWORD}":"ann"}}"#),
        format!("user=ann&password={WRONG_PASSWORD}"),
        login(&WRONG_PASSWORD.repeat(1000)),
    ] {
        let (status, answer) = outputs.ask(door, at, "Accept: */*", &bad);
        assert!((400..500).contains(&status), "{answer}");
    }
    // A verifier that is none, which a client could take for the place of a password.
    for request in ["PUT /api/v1/users/bob", "PUT /api/v1/users/ann/password"] {
        for body in [
            format!(r#"{{"verifier":"{WRONG_PASSWORD}","role":"read"}}"#),
            format!(r#"{{"password":"{WRONG_PASSWORD}","role":"read"}}"#),
        ] {
            let (status, _) = outputs.ask(door, request, &basic("ann", password), &body);
            assert_eq!(status, 400, "{request} {body}");
        }
    }
    session
}

/// Creates a token; returns its text.
fn create_token(outputs: &mut Outputs, home: &Home, name: &str, more: &[&str]) -> String {
    let args = [
        "token", "create", name, "--role", "ingest", "--output", "json",
    ];
    let made = outputs.run(home, &[&args[..], more].concat(), "");
    let made: Value = serde_json::from_slice(&made).expect("JSON");
    made["token"].as_str().expect("a token").to_owned()
}

/// Runs the commands that show or use something of accounts.
fn run_commands(outputs: &mut Outputs, home: &Home, door: &Door, token: &str) {
    for args in [
        &["user", "list"][..],
        &["token", "list"],
        &["config", "show"],
        &["config", "show", "--origin"],
        &["sql", "SELECT * FROM system.users"],
        &["sql", "SELECT * FROM system.audit"],
        &["sql", "SELECT * FROM system.queries"],
        &["user", "add", "ann", "--role", "read"],
    ] {
        let output = outputs.run(home, args, WRONG_PASSWORD);
        outputs.keep(&format!("{args:?}"), &output);
    }
    let file = home.file("token.secret", format!("{token}\n"));
    let ca: Vec<&str> = match &door.certificate {
        Some(file) => vec!["--ca-file", file],
        None => Vec::new(),
    };
    let url = &*door.server.url;
    for (name, more, variable) in [
        ("a token in a file", &["--token-file", &file][..], None),
        ("a token in the environment", &[], Some(token)),
        ("a wrong token", &[], Some(TOKEN_LIKE)),
        (
            "a token of two lines",
            &[],
            Some("lm_a\r\ncanary-two-lines"),
        ),
    ] {
        let mut ask = here(home);
        ask.args(["sql", "SELECT 1", "--server", url]).args(&ca);
        ask.args(more);
        ask.envs(variable.map(|token| ("LOGMILL_TOKEN", token)));
        assert_ne!(
            outputs.tell(name, &mut ask),
            0,
            "{name} of a sender reads nothing"
        );
    }
    for url in [
        format!("http://ann:{WRONG_PASSWORD}@localhost:1"),
        format!("ann:{WRONG_PASSWORD}@localhost:1"),
    ] {
        let mut ask = here(home);
        ask.args(["sql", "SELECT 1", "--server", &url]);
        assert_eq!(outputs.tell("a password in the URL", &mut ask), 2);
    }
}

/// Starts servers whose files of secrets cannot be used.
fn serve_bad_files(outputs: &mut Outputs, home: &Home, cert: &str) {
    let bad = home.file(
        "bad.secret",
        format!("-----BEGIN PRIVATE KEY-----\n{WRONG_PASSWORD}\n-----END PRIVATE KEY-----\n"),
    );
    let short = home.file("short.secret", SHORT_KEY);
    for (name, variables) in [
        (
            "a bad key",
            [("LOGMILL_TLS__CERT", cert), ("LOGMILL_TLS__KEY", &bad)],
        ),
        (
            "a key for a certificate",
            [("LOGMILL_TLS__CERT", &bad), ("LOGMILL_TLS__KEY", &bad)],
        ),
        (
            "a short hash key",
            [("LOGMILL_INGEST__HASH_KEY_FILE", &short), ("A", "b")],
        ),
        (
            "an unknown key",
            [("LOGMILL_TLS__KEY_PASSWORD", WRONG_PASSWORD), ("A", "b")],
        ),
    ] {
        let mut serve = here(home);
        serve.args(["serve", &home.path("other"), "--http", "127.0.0.1:0"]);
        assert_ne!(outputs.tell(name, serve.envs(variables)), 0, "{name}");
    }
}

/// Types a password at the prompts of a terminal, where a Python can open one.
fn type_password(outputs: &mut Outputs, home: &Home) {
    let Some(python) = python() else { return };
    let mut typed = Command::new(python);
    typed
        .current_dir(home.path(""))
        .env("LOGMILL_LOG", "trace")
        .env_remove("LOGMILL_PASSWORD")
        .args(["-c", TYPIST, TYPED_PASSWORD, crate::support::BINARY])
        .args([
            "user", "add", "typist", "--role", "read", "--data", &home.data,
        ]);
    let output = finish(&mut typed, b"");
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.stdout.contains("Again: "), "{output:?}");
    outputs.keep("a terminal", output.stdout.as_bytes());
    outputs.keep("a terminal", output.stderr.as_bytes());
}

/// Returns the 32 bytes of an EC key in PEM, and the lines of its text that have some of them.
fn private_key(file: &str) -> (Vec<u8>, Vec<String>) {
    let text = std::fs::read_to_string(file).expect("a key");
    let lines: Vec<&str> = text.lines().filter(|l| !l.starts_with('-')).collect();
    let der = BASE64_STANDARD.decode(lines.concat()).expect("base 64");
    // ECPrivateKey: version 1, then the key (RFC 5915).
    let at = memchr::memmem::find(&der, &[2, 1, 1, 4, 32]).expect("a key of P-256") + 5;
    let of_key = lines.iter().enumerate().filter(|(n, _)| n * 48 < at + 32);
    let lines = of_key.map(|(_, line)| (*line).to_owned()).collect();
    (der[at..at + 32].to_vec(), lines)
}

#[test]
fn no_secret_is_found_in_any_file_or_output() {
    let home = Home::new();
    home.file("hash.secret", HASH_KEY);
    home.file(
        "logmill.toml",
        "[ingest]\nhash_key_file = \"hash.secret\"\n[stream.web]\nformat = \"combined\"\nanonymise = { host = \"hash\" }\n",
    );
    let mut outputs = Outputs::default();
    outputs.run(&home, &["user", "add", "ann", "--role", "admin"], PASSWORD);
    let tls = home.path("tls");
    outputs.run(&home, &["tls", "self-signed", "--out", &tls], "");
    let (cert, key) = (format!("{tls}/cert.pem"), format!("{tls}/key.pem"));
    let mut secrets = Vec::new();
    let mut verifiers = Vec::new();
    let mut password = PASSWORD;
    for encrypted in [false, true] {
        let door = Door::open(&home, encrypted.then_some((&*cert, &*key)));
        let name = if encrypted { "b" } else { "a" };
        let token = create_token(&mut outputs, &home, name, &[]);
        let expired = create_token(&mut outputs, &home, &name.repeat(2), &["--expires", "1s"]);
        let made = std::time::Instant::now();
        verifiers.extend(verifiers_of(&home.data));
        send_credentials(&mut outputs, &door, password, [&token, &expired]);
        while made.elapsed().as_secs() < 2 {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let bearer = format!("Authorization: Bearer {expired}");
        let (status, _) = outputs.ask(&door, "POST /api/v1/ingest/web", &bearer, "");
        assert_eq!(status, 401, "the token has expired");
        let session = log_in(&mut outputs, &door, password);
        run_commands(&mut outputs, &home, &door, &token);
        outputs.run(&home, &["user", "passwd", "ann"], NEW_PASSWORD);
        password = NEW_PASSWORD;
        verifiers.extend(verifiers_of(&home.data));
        let backup = home.path(&format!("backup-{name}"));
        let made = outputs.run(&home, &["backup", &backup], "");
        assert!(Path::new(&backup).join("ACCESS").exists(), "{made:?}");
        outputs.run(&home, &["token", "revoke", name], "");
        outputs.keep("the server's log", door.server.log().as_bytes());
        secrets.push(secret(
            "the operator's secret",
            operator(&home.data),
            &["data/OPERATOR"],
        ));
        secrets.push(secret("a token", &token, &["token.secret"]));
        secrets.push(secret("an expired token", &expired, &[]));
        secrets.push(secret("a session", &session, &[]));
        // A clean end writes too.
        assert_eq!(door.server.stop(), Some(0));
    }
    let from_file = home.file("password.secret", format!("{FILE_PASSWORD}\n"));
    let add = [
        "user",
        "add",
        "filed",
        "--role",
        "read",
        "--password-file",
        &from_file,
    ];
    outputs.run(&home, &add, "");
    type_password(&mut outputs, &home);
    serve_bad_files(&mut outputs, &home, &cert);
    verifiers.extend(verifiers_of(&home.data));
    outputs.keep(
        "the store's log",
        &std::fs::read(format!("{}.log", home.data)).expect("a log"),
    );
    files(Path::new(&home.path("")), &mut outputs);
    assert!(outputs.0.len() > 60, "{} places", outputs.0.len());

    let (scalar, lines) = private_key(&key);
    secrets.push(secret("the private key", scalar, &["tls/key.pem"]));
    for line in lines {
        secrets.push(secret("a line of the private key", line, &["tls/key.pem"]));
    }
    verifiers.sort();
    verifiers.dedup();
    assert!(verifiers.len() >= 6, "{}", verifiers.len());
    for verifier in verifiers {
        secrets.push(secret("a verifier", verifier, &["/ACCESS"]));
    }
    secrets.extend([
        secret("a password", PASSWORD, &[]),
        secret("a new password", NEW_PASSWORD, &[]),
        secret("a wrong password", WRONG_PASSWORD, &["bad.secret"]),
        secret("a password in a file", FILE_PASSWORD, &["password.secret"]),
        secret("a typed password", TYPED_PASSWORD, &[]),
        secret("a wrong token", TOKEN_LIKE, &[]),
        secret("a wrong token of two lines", "canary-two-lines", &[]),
        secret("a hash key", HASH_KEY, &["hash.secret"]),
        secret("a short hash key", SHORT_KEY, &["short.secret"]),
    ]);
    for Secret {
        name,
        bytes,
        kept_in,
    } in &secrets
    {
        let forms = forms(bytes);
        let mut found = 0;
        for (place, text) in &outputs.0 {
            let holds = forms.iter().any(|form| holds(text, form));
            if kept_in.iter().any(|end| place.ends_with(end)) {
                found += usize::from(holds);
                continue;
            }
            assert!(
                !holds,
                "{name} is in {place}: {}",
                String::from_utf8_lossy(text)
            );
        }
        // The search finds a secret where it belongs, but for those that were replaced since, and
        // for the key, whose file has it in pieces.
        let replaced = [
            "the operator's secret",
            "a token",
            "a verifier",
            "the private key",
        ];
        let replaced = replaced.contains(name);
        assert!(
            found > 0 || kept_in.is_empty() || replaced,
            "{name} is nowhere"
        );
    }
    // The search finds what is there, in the forms of base 64 too.
    let mut planted = Vec::new();
    let pair = BASE64_STANDARD.encode(format!("ann:{PASSWORD}"));
    writeln!(planted, "x{pair}").expect("memory");
    let finds = |form: &Vec<u8>| holds(&planted, form);
    assert!(forms(PASSWORD.as_bytes()).iter().any(finds));
    println!("{} secrets, {} places", secrets.len(), outputs.0.len());
}

/// Returns the secret of the commands that can read a store's directory.
fn operator(data: &str) -> String {
    let path = Path::new(data).join("OPERATOR");
    let text = std::fs::read_to_string(path).expect("OPERATOR");
    let secret = text.split('"').find(|t| t.starts_with("lm_"));
    secret.expect("a secret").to_owned()
}

/// Returns the keys of all verifiers of a store, as bytes.
fn verifiers_of(data: &str) -> Vec<Vec<u8>> {
    let text = std::fs::read_to_string(Path::new(data).join("ACCESS")).expect("ACCESS");
    let mut keys = Vec::new();
    for verifier in text.split('"').filter(|t| t.starts_with("SCRAM-SHA-256$")) {
        let (_, pair) = verifier.rsplit_once('$').expect("keys");
        let decoded = pair
            .split(':')
            .map(|key| BASE64_STANDARD.decode(key).expect("base 64"));
        keys.extend(decoded);
    }
    keys
}
