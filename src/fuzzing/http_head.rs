//! The head of a request: parameters, credentials, names of the server.

use std::collections::HashMap;

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use secrecy::ExposeSecret;
use storage::{Identity, Name};

use crate::access::Credentials;
use crate::config::Authority;
use crate::server::credentials::{COOKIE, credentials};
use crate::server::own_names::OwnNames;
use crate::server::request_parameters::{RequestParameters, stream_name};

/// Names that the server has.
const HOSTS: [&str; 4] = ["localhost", "127.0.0.1", "[::1]", "logs.example.org"];

/// Reads the head of a request: a line of `stream&name=value&name=value`, and lines of headers.
/// Credentials mean the same when they are written anew, a foreign name is never the server's, and
/// an identity is one that a batch may have.
pub(crate) fn http_head(bytes: &[u8]) {
    let mut lines = bytes.split(|b| *b == b'\n');
    let first = String::from_utf8_lossy(lines.next().unwrap_or_default());
    let mut headers = HeaderMap::new();
    for line in lines {
        let colon = line.iter().position(|b| *b == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or_default().trim_ascii();
        let name = HeaderName::from_bytes(name);
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    }
    check_credentials(&headers);
    check_names(&headers);
    check_parameters(&first, &headers);
}

fn check_credentials(headers: &HeaderMap) {
    let given = credentials(headers);
    let authorizations = headers.get_all(header::AUTHORIZATION).iter().count();
    assert!(authorizations < 2 || given.is_err(), "two Authorization");
    let mut anew = HeaderMap::new();
    match given {
        Ok(Some(Credentials::Token(token))) => {
            let text = format!("Bearer {}", token.expose_secret());
            // A token of spaces alone would be trimmed.
            let text = HeaderValue::from_str(&text).expect("it came in a header");
            anew.insert(header::AUTHORIZATION, text);
            let Ok(Some(Credentials::Token(again))) = credentials(&anew) else {
                panic!("a token is no token any more");
            };
            assert_eq!(again.expose_secret(), token.expose_secret().trim());
        }
        Ok(Some(Credentials::Password { user, password })) => {
            assert!(!user.contains(':'));
            let pair = format!("{user}:{}", password.expose_secret());
            let text = format!("basic {}", BASE64_STANDARD.encode(pair));
            anew.insert(header::AUTHORIZATION, text.parse().expect("ASCII"));
            let Ok(Some(Credentials::Password {
                user: user_again,
                password: again,
            })) = credentials(&anew)
            else {
                panic!("a password is no password any more");
            };
            assert_eq!(user_again, user);
            assert_eq!(again.expose_secret(), password.expose_secret());
        }
        Ok(Some(Credentials::Session(id))) => {
            assert_eq!(authorizations, 0);
            let text = format!("{COOKIE}={}", id.expose_secret());
            anew.insert(header::COOKIE, text.parse().expect("it came in a header"));
            let Ok(Some(Credentials::Session(again))) = credentials(&anew) else {
                panic!("a session is no session any more");
            };
            assert_eq!(again.expose_secret(), id.expose_secret());
        }
        Ok(Some(Credentials::Certificate(_))) => panic!("no header is a certificate"),
        Ok(None) => assert_eq!(authorizations, 0),
        Err(_) => {}
    }
}

fn check_names(headers: &HeaderMap) {
    let address = "127.0.0.1:7070".parse().expect("an address");
    let own = OwnNames::new(address, &["logs.example.org".to_owned()]);
    let is_known = |authority: &str| {
        let host = Authority::parse(authority).expect("it was accepted").host;
        HOSTS.contains(&host.as_str())
    };
    for (name, value) in headers {
        let text = String::from_utf8_lossy(value.as_bytes());
        if name == header::HOST && own.is_own_host(&text, None) {
            assert!(is_known(&text), "{text:?}");
        }
        if name == header::ORIGIN && own.is_own_origin(&text, None) {
            let http = text.strip_prefix("http://");
            let host = http.or_else(|| text.strip_prefix("https://"));
            assert!(host.is_some_and(is_known), "{text:?}");
        }
        if let Some(authority) = Authority::parse(&text) {
            let port = authority
                .port
                .map_or(String::new(), |port| format!(":{port}"));
            let again = Authority::parse(&format!("{}{port}", authority.host));
            assert_eq!(again, Some(authority));
        }
    }
}

fn check_parameters(line: &str, headers: &HeaderMap) {
    let mut words = line.split('&');
    let Ok(stream) = stream_name(words.next().unwrap_or_default()) else {
        return;
    };
    assert!(!stream.as_str().starts_with('_') && Name::new(stream.as_str()).is_ok());
    let pairs = words.filter_map(|word| word.split_once('='));
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let pairs: HashMap<String, String> = pairs.collect();
    let Ok(parameters) = RequestParameters::check(&pairs) else {
        return;
    };
    let _either = (parameters.flag("debug"), parameters.number("wtimeout"));
    match parameters.identity(&stream, headers) {
        Ok(Some(Identity::Key { key, .. })) => {
            let (of_stream, key) = key.split_once('\0').expect("the stream and the key");
            assert_eq!(of_stream, stream.as_str());
            assert!(key.len() <= 255 && !pairs.contains_key("producer"));
        }
        Ok(Some(Identity::Range {
            producer, from, to, ..
        })) => {
            assert!(from <= to && producer.len() <= 8192);
            assert!(!headers.contains_key("idempotency-key"));
        }
        Ok(Some(Identity::Settles { .. })) => panic!("no request settles items"),
        Ok(None) | Err(_) => {}
    }
}
