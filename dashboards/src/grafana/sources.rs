//! The data sources, and the folder of the dashboards.

use super::{LOKI, Options, POSTGRES, PROMETHEUS};

const HEAD: &str = "\
# Data sources of a Logmill store. The name and the password of an account come from Grafana's
# environment, LOGMILL_USER and LOGMILL_PASSWORD. A store without accounts takes any.
apiVersion: 1
datasources:
";

/// Returns `provisioning/datasources/logmill.yaml`.
pub(super) fn sources(options: &Options) -> String {
    let (url, postgres) = (text(&options.url), text(&options.postgres));
    // A server with a certificate for HTTP has it for PostgreSQL too.
    let sslmode = match options.url.starts_with("https://") {
        true => "verify-full",
        false => "disable",
    };
    let mut sources = format!(
        "{HEAD}\
\x20 - name: Logmill
    uid: {POSTGRES}
    type: postgres
    access: proxy
    url: {postgres}
    user: $LOGMILL_USER
    database: logmill
    editable: false
    jsonData:
      database: logmill
      sslmode: {sslmode}
      # Rollups count from the minute on.
      timeInterval: 1m
      postgresVersion: 1500
      timescaledb: false
    secureJsonData:
      password: $LOGMILL_PASSWORD
"
    );
    sources += &over_http("Logmill logs", LOKI, "loki", &url, "maxLines: 1000");
    if options.prometheus {
        let url = text(&format!("{}/prometheus", options.url));
        let more = "httpMethod: POST\n      timeInterval: 1m";
        sources += &over_http("Logmill metrics", PROMETHEUS, "prometheus", &url, more);
    }
    sources
}

fn over_http(name: &str, uid: &str, kind: &str, url: &str, more: &str) -> String {
    format!(
        "\x20 - name: {name}
    uid: {uid}
    type: {kind}
    access: proxy
    url: {url}
    editable: false
    basicAuth: true
    basicAuthUser: $LOGMILL_USER
    jsonData:
      {more}
    secureJsonData:
      basicAuthPassword: $LOGMILL_PASSWORD
"
    )
}

/// Returns a value that an operator gave as a YAML scalar without variables of the environment.
fn text(value: &str) -> String {
    serde_json::Value::from(value.replace('$', "$$")).to_string()
}

/// Returns `provisioning/dashboards/logmill.yaml`. Its path is Grafana's own, not that of the
/// machine on which the files are made.
pub(super) fn folder() -> String {
    "\
# Grafana reads the dashboards from the folder that LOGMILL_DASHBOARDS names.
apiVersion: 1
providers:
  - name: logmill
    folder: Logmill
    type: file
    disableDeletion: false
    allowUiUpdates: true
    updateIntervalSeconds: 30
    options:
      path: $LOGMILL_DASHBOARDS
"
    .to_owned()
}
