//! Other clients: MongoDB's drivers for Node (`tests/clients/mongo.cjs`) and for Rust, and mongosh.

use std::path::Path;
use std::process::Command;

use super::served;
use crate::support::{Home, finish};

/// Runs a client against a store of its own.
#[track_caller]
fn check(client: impl FnOnce(&str) -> Command, expected: &str) {
    let home = Home::new();
    let (server, address) = served(&home);
    let told = finish(&mut client(&address), &[]).code(0).stdout;
    match told.trim_end() {
        skipped if skipped.starts_with("skipped") => println!("{skipped}"),
        told => assert_eq!(told, expected),
    }
    assert_eq!(server.stop(), Some(0));
}

fn script(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/clients")
        .join(name)
}

#[test]
fn the_driver_for_node_stores_and_finds() {
    let Ok(packages) = std::env::var("LOGMILL_NODE_PATH") else {
        println!("skipped: LOGMILL_NODE_PATH names no folder with the driver mongodb");
        return;
    };
    let client = |address: &str| {
        let mut client = Command::new("node");
        client
            .arg(script("mongo.cjs"))
            .arg(address)
            .env("NODE_PATH", packages);
        client
    };
    check(client, "stored 2500");
}

/// `LOGMILL_MONGO_RUST` is the program that `cargo build` makes in `tests/clients/mongo_rust`.
#[test]
fn the_driver_for_rust_stores_and_finds() {
    let Ok(program) = std::env::var("LOGMILL_MONGO_RUST") else {
        println!("skipped: LOGMILL_MONGO_RUST names no program of tests/clients/mongo_rust");
        return;
    };
    let client = |address: &str| {
        let mut client = Command::new(program);
        client.arg(address);
        client
    };
    check(client, "stored 2500");
}

/// `LOGMILL_MONGOSH` is the program, which is large.
#[test]
fn mongosh_types_and_reads() {
    let Ok(program) = std::env::var("LOGMILL_MONGOSH") else {
        println!("skipped: LOGMILL_MONGOSH names no mongosh");
        return;
    };
    let client = |address: &str| {
        let mut client = Command::new(program);
        client.args(["--quiet", "--norc", &format!("mongodb://{address}/logs")]);
        client.arg("--file").arg(script("mongosh.js"));
        client
    };
    check(client, "typed 30");
}
