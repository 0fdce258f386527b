//! Short real logs, each with the format that `auto` chooses for it and what becomes of its lines.

use serde_json::{Value, json};

use super::explained;
use crate::support::test_data;

/// A file of the folder `edge`: its format without fields, its events, and its quarantined lines by
/// reason.
type Row = (
    &'static str,
    &'static str,
    u64,
    &'static [(&'static str, u64)],
);

const EDGE: [Row; 27] = [
    (
        "beats_nginx_test.log",
        "combined",
        3,
        &[("not_combined", 4)],
    ),
    ("lnav_logfile_access_log.0", "combined", 3, &[]),
    ("lnav_logfile_access_log.1", "combined", 1, &[]),
    (
        "lnav_logfile_bad_access_log.0",
        "combined",
        2,
        &[("not_combined", 1)],
    ),
    ("lnav_logfile_bunyan.0", "json", 10, &[]),
    // Docker Compose puts the name of the service before each object.
    ("lnav_logfile_caddy_log.0", "auto", 0, &[("no_format", 39)]),
    ("lnav_logfile_crlf.0", "auto", 0, &[("no_format", 2)]),
    ("lnav_logfile_epoch.0", "auto", 0, &[("no_format", 2)]),
    (
        "lnav_logfile_invalid_utf8.0",
        "auto",
        0,
        &[("no_format", 6)],
    ),
    ("lnav_logfile_journald.json", "json", 2, &[]),
    ("lnav_logfile_json.json", "json", 14, &[]),
    (
        "lnav_logfile_json_invalid.json",
        "json",
        12,
        &[("bad_json", 1)],
    ),
    ("lnav_logfile_logfmt.0", "logfmt", 5, &[]),
    ("lnav_logfile_multiline.0", "auto", 0, &[("no_format", 3)]),
    ("lnav_logfile_nested_json.json", "json", 13, &[]),
    ("lnav_logfile_w3c.0", "w3c", 1, &[]),
    ("lnav_logfile_w3c.1", "w3c", 1, &[]),
    ("lnav_logfile_w3c.2", "w3c", 14, &[]),
    ("lnav_logfile_w3c.3", "w3c", 3, &[]),
    // Error logs of Apache with access logs among them.
    (
        "logstash_httpd_spec_lines.log",
        "apache_error",
        6,
        &[("bad_head", 1), ("bad_time", 3)],
    ),
    ("matomo_caddy_json.log", "json", 3, &[]),
    ("matomo_common.log", "common", 1, &[]),
    ("matomo_common_complete.log", "vhost_combined", 1, &[]),
    ("matomo_iis.log", "w3c", 1, &[]),
    ("matomo_ncsa_extended.log", "combined", 1, &[]),
    ("matomo_nginx_json.log", "json", 2, &[]),
    ("tls_on_http_port.log", "combined", 4, &[]),
];

#[test]
fn every_edge_log_is_read_as_expected() {
    let Some(folder) = test_data() else { return };
    for (name, format, events, reasons) in EDGE {
        let told = explained(&folder.join("edge").join(name));
        let found = told["format"].as_str().expect("a format");
        // A format with a header is told with its fields.
        let found = found.split(':').next().expect("a name");
        assert_eq!((found, &told["events"]), (format, &json!(events)), "{name}");
        let mut counted: Vec<Value> = told["reasons"].as_array().expect("reasons").clone();
        counted.sort_by_key(Value::to_string);
        assert_eq!(json!(counted), json!(reasons), "{name}");
    }
}

#[test]
fn a_file_of_w3c_has_the_columns_of_access_logs() {
    let Some(folder) = test_data() else { return };
    let told = explained(&folder.join("edge/matomo_iis.log"));
    let event = &told["first_event"];
    let expected = json!({
        "time": "2012-04-01T00:00:13Z", "host": "1.2.3.4", "method": "GET", "path": "/foo/bar",
        "user": "theuser", "protocol": "HTTP/1.1", "site": "example.com", "status": 200,
        "response_size": 27028, "cs_bytes": 214, "time_taken": 1687, "s_port": 80,
    });
    for (name, value) in expected.as_object().expect("an object") {
        assert_eq!(event[name], *value, "{name}");
    }
}
