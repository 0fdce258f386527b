//! PostgreSQL's JDBC driver, by which DBeaver, Metabase and others connect.

use std::path::Path;
use std::process::{Command, Stdio};

use super::{EVENTS, served};
use crate::support::{Home, finish};

/// The driver, where Debian's libpostgresql-jdbc-java puts it.
const DRIVER: &str = "/usr/share/java/postgresql.jar";

#[test]
fn jdbc_lists_tables_and_reads_a_statement_in_pieces() {
    let javac = Command::new("javac")
        .arg("-version")
        .stdout(Stdio::null())
        .status();
    if javac.is_err() || !Path::new(DRIVER).exists() {
        println!("skipped: a JDK or PostgreSQL's JDBC driver is not installed");
        return;
    }
    let home = Home::new();
    let server = served(&home);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/Jdbc.java");
    let url = format!("jdbc:postgresql://{}/logmill?user=ann", server.postgres);
    let mut java = Command::new("java");
    java.args(["-cp", DRIVER]).arg(source);
    java.args([&*url, &EVENTS.to_string()]);
    let told = finish(&mut java, &[]).code(0).stdout;
    assert!(told.contains("ok jdbc"), "{told}");
}
