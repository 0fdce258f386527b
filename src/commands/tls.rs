//! `logmill tls self-signed`: a certificate for a first try.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;

use rustls::pki_types::ServerName;
use secrecy::{ExposeSecret, SecretString};

use crate::cli::TlsCommand;
use crate::failure::{FAILED, Failure, Result};

/// Validity of the certificate, days: the longest that browsers accept of a server is 398.
const DAYS: i64 = 397;

/// Runs `logmill tls`.
pub(super) fn run(command: &TlsCommand) -> Result<ExitCode> {
    let TlsCommand::SelfSigned { out, names } = command;
    let (cert, key) = create(names)?;
    std::fs::create_dir_all(out)?;
    let (cert_file, key_file) = (out.join("cert.pem"), out.join("key.pem"));
    write_new(&key_file, key.expose_secret(), 0o600)?;
    write_new(&cert_file, &cert, 0o644)?;
    println!("[tls]");
    println!("cert = {:?}", cert_file.display().to_string());
    println!("key = {:?}", key_file.display().to_string());
    crate::failure::tell(format_args!(
        "the certificate is for {} and {DAYS} days; clients must be told to trust it: --ca-file {}, or curl --cacert",
        names.join(", "),
        cert_file.display()
    ));
    Ok(ExitCode::SUCCESS)
}

/// Creates a certificate of these names that signs itself, and its key. Both are PEM.
fn create(names: &[String]) -> Result<(String, SecretString)> {
    let failed =
        |e: rcgen::Error| Failure::new(FAILED, format!("cannot create a certificate: {e}"));
    let is_host = |name: &&String| {
        let name = name.strip_prefix("*.").unwrap_or(name);
        ServerName::try_from(name).is_ok()
    };
    if let Some(wrong) = names.iter().find(|name| !is_host(name)) {
        return Err(Failure::usage(format!(
            "--name {wrong:?}: write the name or the address of a host"
        )));
    }
    let mut parameters = rcgen::CertificateParams::new(names)
        .map_err(|e| Failure::usage(format!("{}: not names of a host: {e}", names.join(", "))))?;
    let name = names.first().map_or("localhost", String::as_str);
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters
        .distinguished_name
        .push(rcgen::DnType::CommonName, name);
    let now = chrono::Utc::now();
    let date = |at: chrono::DateTime<chrono::Utc>| {
        use chrono::Datelike;
        let (month, day) = (at.month() as u8, at.day() as u8);
        rcgen::date_time_ymd(at.year(), month, day)
    };
    parameters.not_before = date(now - chrono::TimeDelta::days(1));
    parameters.not_after = date(now + chrono::TimeDelta::days(DAYS));
    // A certificate that is for more than servers would be a login where `client_ca` trusts it.
    parameters.key_usages = vec![rcgen::KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    let key = rcgen::KeyPair::generate().map_err(failed)?;
    let cert = parameters.self_signed(&key).map_err(failed)?;
    Ok((cert.pem(), SecretString::from(key.serialize_pem())))
}

/// Writes a file that does not exist yet.
fn write_new(path: &Path, text: &str, mode: u32) -> Result<()> {
    let opened = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path);
    let mut file = opened.map_err(|e| {
        Failure::new(
            FAILED,
            format!(
                "{}: {e}; a certificate that is in use is not replaced",
                path.display()
            ),
        )
    })?;
    file.write_all(text.as_bytes())?;
    Ok(())
}
