//! The address of a depot, and the client that reaches it.

use std::net::IpAddr;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
use object_store::path::Path;
use object_store::{BackoffConfig, ClientConfigKey, RetryConfig};

/// Retries of a request after the first attempt.
const RETRIES: usize = 6;
/// Time from the first attempt after which none begins.
const RETRY_FOR: Duration = Duration::from_secs(20);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// Time of one attempt, with its content.
const ATTEMPT: &str = "30s";
const CONNECT: &str = "5s";

/// The address of a depot.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DepotUrl {
    /// `s3://bucket/prefix`, without a slash at its end.
    pub(super) url: String,
    pub(super) bucket: String,
    pub(super) prefix: Path,
}

impl DepotUrl {
    /// Reads `s3://BUCKET` or `s3://BUCKET/PREFIX`.
    ///
    /// # Errors
    /// A text that says why it is another address, and shows nothing that may be a password.
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        if url.contains('@') {
            return Err(
                "the address of an object store has an @ in it; write s3://BUCKET/PREFIX, and put credentials into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY".into(),
            );
        }
        let wrong = |why: &str| format!("object store {url:?}: {why}; write s3://BUCKET/PREFIX");
        let Some(rest) = url.strip_prefix("s3://") else {
            return Err(wrong("its address does not begin with s3://"));
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let in_bucket = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if bucket.is_empty() || !bucket.chars().all(in_bucket) {
            return Err(wrong("it does not name a bucket"));
        }
        if prefix.contains(['?', '#']) {
            return Err(wrong("its prefix has a ? or # in it"));
        }
        let prefix = Path::parse(prefix).map_err(|e| wrong(&e.to_string()))?;
        let url = format!("s3://{bucket}/{prefix}");
        Ok(Self {
            url: url.trim_end_matches('/').into(),
            bucket: bucket.into(),
            prefix,
        })
    }
}

/// Returns the settings in the variables `AWS_…` of the environment.
pub(super) fn from_env() -> AmazonS3Builder {
    AmazonS3Builder::from_env()
}

/// Returns the client for a bucket. `settings` has the credentials, endpoint and region.
///
/// # Errors
/// A text that names the variable that is wrong and its remedy.
pub(super) fn client(settings: AmazonS3Builder, place: &DepotUrl) -> Result<AmazonS3, String> {
    let may_be_plain = may_be_plain(&settings)?;
    let option = |key| AmazonS3ConfigKey::Client(key);
    let retry = RetryConfig {
        backoff: BackoffConfig {
            max_backoff: BACKOFF_MAX,
            ..BackoffConfig::default()
        },
        max_retries: RETRIES,
        retry_timeout: RETRY_FOR,
    };
    settings
        .with_bucket_name(&place.bucket)
        // A commit is a conditional put: no variable may turn it off.
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_allow_http(may_be_plain)
        .with_config(option(ClientConfigKey::Timeout), ATTEMPT)
        .with_config(option(ClientConfigKey::ConnectTimeout), CONNECT)
        .with_retry(retry)
        .build()
        .map_err(|e| format!("{}: {e}; correct the variables AWS_…", place.url))
}

/// Checks whether requests may be sent without encryption: to this machine, or to any other that
/// the user allows.
fn may_be_plain(settings: &AmazonS3Builder) -> Result<bool, String> {
    let value = |key| settings.get_config_value(&key);
    let allowed = value(AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp));
    let allowed = allowed.is_some_and(|v| v.eq_ignore_ascii_case("true") || v == "1");
    let endpoint = value(AmazonS3ConfigKey::S3Endpoint).or(value(AmazonS3ConfigKey::Endpoint));
    let Some(endpoint) = endpoint else {
        return Ok(allowed);
    };
    if endpoint.contains('@') {
        return Err(
            "AWS_ENDPOINT_URL has an @ in it; put credentials into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY".into(),
        );
    }
    match endpoint.split_once("://") {
        Some(("https", _)) => Ok(allowed),
        Some(("http", rest)) if allowed || is_this_machine(rest) => Ok(true),
        Some(("http", _)) => Err(format!(
            "AWS_ENDPOINT_URL {endpoint:?} has no encryption and is another machine; use https://, or set AWS_ALLOW_HTTP=true"
        )),
        _ => Err(format!(
            "AWS_ENDPOINT_URL {endpoint:?} does not begin with https:// or http://; correct it"
        )),
    }
}

/// Checks whether an endpoint, without its scheme, is on this machine.
fn is_this_machine(endpoint: &str) -> bool {
    let authority = endpoint.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next(),
        None => authority.split(':').next(),
    };
    let host = host.unwrap_or_default();
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}
