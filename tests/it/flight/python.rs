//! Python's ADBC, pandas, Polars and PyArrow.

use std::path::Path;
use std::process::Command;

use super::{EVENTS, served};
use crate::support::{Home, Server, finish, run, run_with_input};

#[test]
fn adbc_reads_into_pandas_polars_and_pyarrow() {
    let Ok(python) = std::env::var("LOGMILL_CLIENTS_PYTHON") else {
        println!("skipped: LOGMILL_CLIENTS_PYTHON names no Python with adbc-driver-flightsql");
        return;
    };
    let home = Home::new();
    let server = served(&home, &[]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/flight.py");
    let read = |uri: &str, more: &[&str]| {
        let mut client = Command::new(&python);
        client
            .arg(&script)
            .args([uri, &EVENTS.to_string()])
            .args(more);
        let told = finish(&mut client, &[]).code(0);
        assert!(!told.stdout.contains("FAILED"), "{}", told.stdout);
        assert!(told.stdout.contains("ok values"), "{}", told.stdout);
        told.stdout
    };
    read(&server.flight, &[]);
    server.stop();
    let out = home.path("certificates");
    run(&["tls", "self-signed", "--out", &out, "--name", "localhost"]).code(0);
    let (cert, key) = (format!("{out}/cert.pem"), format!("{out}/key.pem"));
    let environment = [("LOGMILL_TLS__CERT", &*cert), ("LOGMILL_TLS__KEY", &*key)];
    let add = [
        "user",
        "add",
        "ann",
        "--role",
        "read",
        "--password-file",
        "-",
    ];
    let add = [&add[..], &["--data", &home.data]].concat();
    run_with_input(&add, b"right horse\n").code(0);
    let server = Server::start_flight(&home.data, &environment);
    let uri = server.flight.replace("127.0.0.1", "localhost");
    let told = read(&uri, &[&cert, "ann", "right horse"]);
    assert!(told.contains("ok login"), "{told}");
}
