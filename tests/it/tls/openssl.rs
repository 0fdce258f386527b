//! The same server as another library sees it: `openssl`, where it is installed.

use std::process::Command;

use super::checks::{Secure, taken_of_tls_1_2};
use crate::support::{Home, Server, finish};

/// Cipher suites that the server takes with a certificate of ECDSA, as OpenSSL names them.
const TAKEN: [&str; 6] = [
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_GCM_SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-ECDSA-AES128-GCM-SHA256",
];

/// Runs `openssl`. Returns its whole output.
fn openssl(args: &[&str], input: &str) -> String {
    let output = finish(
        Command::new("openssl")
            .args(args)
            .stdin(std::process::Stdio::piped()),
        input.as_bytes(),
    );
    output.stdout + &output.stderr
}

fn is_there() -> bool {
    let found = Command::new("openssl").arg("version").output().is_ok();
    if !found {
        println!("skipped: openssl");
    }
    found
}

#[test]
fn openssl_connects_with_six_cipher_suites_and_no_other() {
    if !is_there() {
        return;
    }
    let secure = Secure::start();
    let listed = openssl(
        &["ciphers", "-s", "-V", "ALL:COMPLEMENTOFALL:@SECLEVEL=0"],
        "",
    );
    let all = openssl(&["ciphers", "-V", "ALL:COMPLEMENTOFALL:@SECLEVEL=0"], "");
    let names = |text: &str| -> Vec<String> {
        let names = text
            .lines()
            .filter_map(|line| line.split_whitespace().nth(2));
        names.map(str::to_owned).collect()
    };
    let (all, usable) = (names(&all), names(&listed).len());
    let mut taken = Vec::new();
    for name in &all {
        let cipher = format!("{name}:@SECLEVEL=0");
        let choice = match name.starts_with("TLS_") {
            true => ["-tls1_3", "-ciphersuites", name],
            false => ["-tls1_2", "-cipher", &cipher],
        };
        let args = ["s_client", "-connect", &secure.server.address];
        let said = openssl(&[&args[..], &choice].concat(), "Q\n");
        if said.contains("Server certificate") {
            assert!(
                said.contains(&format!("Cipher is {name}")),
                "{name}: {said}"
            );
            taken.push(name.as_str());
        }
    }
    assert_eq!(taken, TAKEN, "of {}", all.len());
    assert!(all.len() > 30, "{all:?}");
    println!(
        "{} cipher suites of openssl ({usable} of them usable), 6 taken",
        all.len()
    );
}

#[test]
fn openssl_finds_no_old_version_no_compression_and_no_renegotiation() {
    if !is_there() {
        return;
    }
    let secure = Secure::start();
    let ca = secure.home.file("ca.pem", &secure.authority.certificate);
    let client = |args: &[&str], input: &str| {
        let common = [
            "s_client",
            "-connect",
            &secure.server.address,
            "-CAfile",
            &ca,
        ];
        openssl(&[&common[..], args].concat(), input)
    };
    let lax = ["-cipher", "ALL:@SECLEVEL=0"];
    for version in ["-tls1", "-tls1_1"] {
        let said = client(&[&[version][..], &lax].concat(), "Q\n");
        assert!(!said.contains("Server certificate"), "{version}: {said}");
    }
    for version in ["-tls1_2", "-tls1_3"] {
        let said = client(&[version], "Q\n");
        assert!(
            said.contains("Verify return code: 0 (ok)"),
            "{version}: {said}"
        );
        assert!(said.contains("Compression: NONE"), "{version}: {said}");
    }
    // `R` at the beginning of a line asks for new keys.
    let said = client(&["-tls1_2"], "R\n");
    assert!(said.contains("RENEGOTIATING"), "{said}");
    let (_, after) = said.split_once("RENEGOTIATING").unwrap_or_default();
    assert!(after.contains("no renegotiation"), "{said}");
    let said = client(&["-tls1_2"], "Q\n");
    assert!(
        said.contains("Verify return code: 0 (ok)"),
        "the server still answers: {said}"
    );
}

/// A certificate of RSA has suites of its own, but no exchange of keys by RSA.
#[test]
fn a_certificate_of_rsa_has_three_cipher_suites_with_forward_secrecy() {
    if !is_there() {
        return;
    }
    let home = Home::new();
    let (cert, key) = (home.path("rsa.pem"), home.path("rsa.key"));
    let made = [
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "30",
        "-subj",
        "/CN=localhost",
    ];
    let said = openssl(&[&made[..], &["-keyout", &key, "-out", &cert]].concat(), "");
    assert!(std::fs::exists(&cert).expect("readable"), "{said}");
    let environment = [("LOGMILL_TLS__CERT", &*cert), ("LOGMILL_TLS__KEY", &key)];
    let server = Server::start_with(&home.data, &environment);
    assert_eq!(taken_of_tls_1_2(&server), [0xc02f, 0xc030, 0xcca8]);
}
