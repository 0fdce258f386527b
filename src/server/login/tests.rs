use axum::http::HeaderName;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::*;

fn read(pairs: &[(&str, &str)]) -> Result<Option<String>, &'static str> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let name: HeaderName = name.parse().expect("a name");
        headers.append(name, value.parse().expect("a value"));
    }
    let shown = |given| match given {
        Credentials::Token(token) => format!("token {}", token.expose_secret()),
        Credentials::Certificate(user) => format!("certificate {user}"),
        Credentials::Session(id) => format!("session {}", id.expose_secret()),
        Credentials::Password { user, password } => {
            format!("{user} / {}", password.expose_secret())
        }
    };
    Ok(credentials(&headers)?.map(shown))
}

#[test]
fn credentials_are_read_as_each_client_writes_them() {
    let basic = format!("basic {}", BASE64_STANDARD.encode("ann:a:b ü"));
    for (header, value, expected) in [
        ("authorization", "Bearer lm_1", "token lm_1"),
        ("authorization", "bearer  lm_1", "token lm_1"),
        ("authorization", "Splunk lm_1", "token lm_1"),
        ("authorization", "ApiKey lm_1", "token lm_1"),
        ("authorization", &basic, "ann / a:b ü"),
        ("x-api-key", "lm_1", "token lm_1"),
        ("cookie", "a=b; logmill_session=xyz; c", "session xyz"),
    ] {
        assert_eq!(
            read(&[(header, value)]),
            Ok(Some(expected.to_owned())),
            "{value}"
        );
    }
    assert_eq!(read(&[("cookie", "session=1")]), Ok(None));
    let both = read(&[
        ("cookie", "logmill_session=1"),
        ("authorization", "Bearer 2"),
    ]);
    assert_eq!(both, Ok(Some("token 2".to_owned())));
    for wrong in ["Bearer", "Digest a", "Basic !", "Basic YQ==", "Basic /w=="] {
        assert!(read(&[("authorization", wrong)]).is_err(), "{wrong}");
    }
    let twice = [("authorization", "Bearer 1"), ("authorization", "Bearer 1")];
    assert!(read(&twice).is_err());
}
