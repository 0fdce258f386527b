//! Logins over Flight SQL, and what each client sees.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use arrow_flight::sql::CommandGetTables;
use arrow_flight::sql::client::FlightSqlServiceClient;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tonic::Code;
use tonic::transport::{Endpoint, Uri};

use super::{ask, connect, fetch, refused, served, within};
use crate::support::{Home, PAST_S, Server, line, run, run_with_input};

/// Runs a command on the store of a server.
fn account(home: &Home, args: &[&str], input: &[u8]) -> String {
    let all = [args, &["--data", &home.data, "--output", "json"]].concat();
    run_with_input(&all, input).code(0).stdout
}

fn token(home: &Home, args: &[&str]) -> String {
    let created = account(home, &[&["token", "create"], args].concat(), b"");
    let created: serde_json::Value = serde_json::from_str(&created).expect("JSON");
    created["token"].as_str().expect("a token").to_owned()
}

#[test]
fn a_call_has_the_rights_of_its_client() {
    let home = Home::new();
    let server = served(&home, &[]);
    server.ingest("other", line("203.0.113.1", PAST_S, "/", 200, 1));
    let all = token(&home, &["all", "--role", "read"]);
    let some = token(&home, &["some", "--role", "read", "--stream", "acc*"]);
    let sender = token(&home, &["sender", "--role", "ingest"]);
    within(async {
        let mut client = connect(&server).await;
        for (wrong, code) in [
            (None, Code::Unauthenticated),
            (Some("wrong"), Code::Unauthenticated),
            (Some("open"), Code::Unauthenticated),
            (Some(&sender[..]), Code::PermissionDenied),
        ] {
            client.clear_token();
            if let Some(token) = wrong {
                client.set_token(token.to_owned());
            }
            let (found, message) = refused(ask(&mut client, "SELECT 1").await);
            assert_eq!(found, code, "{wrong:?}: {message}");
        }
        client.set_token(all.clone());
        let other = "SELECT count(*) FROM other";
        let info = client.execute(other.to_owned(), None).await.expect("seen");
        let rows = fetch(&mut client, info.clone()).await.expect("rows");
        assert_eq!(rows.column(0).as_primitive::<Int64Type>().value(0), 1);
        let mut prepared = client.prepare(other.to_owned(), None).await.expect("seen");
        let of_other = prepared.execute().await.expect("seen");
        // Neither a ticket nor a statement of another client gives its rights.
        client.set_token(some.clone());
        assert_eq!(refused(fetch(&mut client, info).await).0, Code::NotFound);
        let foreign = refused(fetch(&mut client, of_other).await);
        assert_eq!(foreign.0, Code::InvalidArgument, "{}", foreign.1);
        assert_eq!(refused(ask(&mut client, other).await).0, Code::NotFound);
        let command = CommandGetTables {
            table_types: vec!["TABLE".to_owned()],
            include_schema: true,
            ..CommandGetTables::default()
        };
        let info = client.get_tables(command).await.expect("tables");
        let tables = fetch(&mut client, info).await.expect("rows");
        let names = tables.column(2).as_string::<i32>();
        assert!(names.iter().flatten().any(|name| name == "access"));
        assert!(!names.iter().flatten().any(|name| name == "other"));
        account(&home, &["token", "revoke", "some"], b"");
        let revoked = refused(ask(&mut client, "SELECT 1").await);
        assert_eq!(revoked.0, Code::Unauthenticated, "{}", revoked.1);
        client.set_token(all.clone());
        client.set_header("database", "other");
        let database = refused(ask(&mut client, "SELECT 1").await);
        assert!(
            database.1.contains("the database is logmill"),
            "{}",
            database.1
        );
        client.set_header("database", "logmill");
        assert!(ask(&mut client, "SELECT 1").await.is_ok());
    });
}

#[test]
fn a_handshake_begins_a_session_that_the_client_can_end() {
    let home = Home::new();
    let server = served(&home, &[]);
    let add = [
        "user",
        "add",
        "ann",
        "--role",
        "read",
        "--password-file",
        "-",
    ];
    account(&home, &add, b"right horse\n");
    within(async {
        let mut client = connect(&server).await;
        for (user, password) in [("ann", "wrong"), ("nobody", "right horse")] {
            let refusal = client.handshake(user, password).await;
            let (_, message) = refused(refusal);
            assert!(message.contains("not valid"), "{user}: {message}");
            assert!(!message.contains("right horse"));
        }
        client
            .handshake("ann", "right horse")
            .await
            .expect("a login");
        assert!(ask(&mut client, "SELECT 1").await.is_ok());
        let close = arrow_flight::Action::new("CloseSession", Vec::new());
        let mut request = tonic::Request::new(close);
        let bearer = format!("Bearer {}", client.token().expect("a session"));
        let bearer = bearer.parse().expect("ASCII");
        request.metadata_mut().insert("authorization", bearer);
        client.inner_mut().do_action(request).await.expect("closed");
        let (code, message) = refused(ask(&mut client, "SELECT 1").await);
        assert_eq!(code, Code::Unauthenticated, "{message}");
    });
}

#[test]
fn a_page_in_a_browser_makes_no_call() {
    let home = Home::new();
    let server = served(&home, &[]);
    within(async {
        let mut client = connect(&server).await;
        client.set_header("origin", "https://example.org");
        assert!(ask(&mut client, "SELECT 1").await.is_err());
        let mut client = connect(&server).await;
        assert!(ask(&mut client, "SELECT 1").await.is_ok());
    });
}

#[test]
fn tls_is_spoken_with_a_certificate_and_nothing_else() {
    let home = Home::new();
    let out = home.path("certificates");
    run(&["tls", "self-signed", "--out", &out, "--name", "localhost"]).code(0);
    let (cert, key) = (format!("{out}/cert.pem"), format!("{out}/key.pem"));
    let environment = [("LOGMILL_TLS__CERT", &*cert), ("LOGMILL_TLS__KEY", &*key)];
    let server = Server::start_flight(&home.data, &environment);
    let address = server
        .flight
        .strip_prefix("grpc+tls://")
        .expect("TLS")
        .to_owned();
    let mut roots = rustls::RootCertStore::empty();
    let trusted = CertificateDer::from_pem_file(&cert).expect("a certificate");
    roots.add(trusted).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider);
    let tls = tls.with_safe_default_protocol_versions().expect("versions");
    let mut tls = tls.with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"h2".to_vec()];
    let tls = tokio_rustls::TlsConnector::from(Arc::new(tls));
    within(async {
        let plain = Endpoint::from_shared(format!("http://{address}")).expect("an address");
        if let Ok(channel) = plain.connect().await {
            let mut client = FlightSqlServiceClient::new(channel);
            assert!(ask(&mut client, "SELECT 1").await.is_err(), "without TLS");
        }
        let connector = tower::service_fn(move |_: Uri| {
            let (tls, address) = (tls.clone(), address.clone());
            async move {
                let socket = tokio::net::TcpStream::connect(address).await?;
                let name = ServerName::try_from("localhost").expect("a name");
                let stream = tls.connect(name, socket).await?;
                assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
                Ok::<_, std::io::Error>(TokioIo::new(stream))
            }
        });
        let endpoint = Endpoint::from_static("http://localhost");
        let channel = endpoint
            .connect_with_connector(connector)
            .await
            .expect("TLS");
        let mut client = FlightSqlServiceClient::new(channel);
        assert_eq!(
            ask(&mut client, "SELECT 1")
                .await
                .expect("a row")
                .num_rows(),
            1
        );
    });
}

#[test]
fn the_listener_is_off_unless_it_is_asked_for() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let shown = run(&["config", "show"]).code(0).stdout;
    assert!(shown.contains("server.flight = off\n"), "{shown}");
    assert_eq!(server.flight, "");
}
