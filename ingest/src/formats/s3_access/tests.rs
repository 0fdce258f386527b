use serde_json::json;

use crate::Format;
use crate::formats::documents::testing::{assert_fields, event as event_of, refusal};
use crate::formats::recognise;
use crate::reader::Fit;

const OWNER: &str = "7cd47ef2be79a59df900b949e55d96a1e698fbacedfd6e09d98eacf8f8d5218e";

fn head(operation: &str) -> String {
    format!(
        "{OWNER} logs [06/Feb/2026:00:01:57 +0100] 192.0.2.3 arn:aws:iam::1:user/u DD6CC733 {operation}"
    )
}

#[test]
fn every_field_of_a_line_has_its_column_and_type() {
    let line = head("REST.GET.OBJECT")
        + r#" a%2520b/c.txt "GET /logs/a%20b/c.txt?versionId=3 HTTP/1.1" 206 - 4406 3462992 70 10 "https://example.org/" "S3Console/0.4" 3HL4kq s9lzHY= SigV4 ECDHE-RSA-AES128-GCM-SHA256 AuthHeader logs.s3.eu-west-1.amazonaws.com TLSV1.2 arn:aws:s3:eu-west-1:1:accesspoint/ap Yes"#;
    assert_eq!(
        event_of(Format::S3Access, &line),
        json!({
            "time": "2026-02-05T23:01:57Z", "bucket_owner": OWNER, "bucket": "logs",
            "host": "192.0.2.3", "user": "arn:aws:iam::1:user/u", "request_id": "DD6CC733",
            "operation": "REST.GET.OBJECT", "key": "a%2520b/c.txt", "method": "GET",
            "path": "/logs/a%20b/c.txt", "query": "versionId=3", "protocol": "HTTP/1.1",
            "status": 206, "response_size": 4406, "object_size": 3462992,
            "request_time_ms": 70, "turn_around_time_ms": 10,
            "referrer": "https://example.org/", "user_agent": "S3Console/0.4",
            "version_id": "3HL4kq", "host_id": "s9lzHY=", "signature_version": "SigV4",
            "cipher_suite": "ECDHE-RSA-AES128-GCM-SHA256", "auth_type": "AuthHeader",
            "site": "logs.s3.eu-west-1.amazonaws.com", "tls_version": "TLSV1.2",
            "access_point_arn": "arn:aws:s3:eu-west-1:1:accesspoint/ap", "acl_required": "Yes",
        })
    );
    assert_eq!(
        recognise(line.as_bytes()),
        Some((Format::S3Access, Fit::Whole))
    );
}

#[test]
fn lines_of_every_operation_and_length_are_read() {
    let tail = r#""-" "aws-sdk/1.0" - id= SigV4 TLS_AES AuthHeader logs.example.org TLSV1.3 - -"#;
    for (line, expected) in [
        (
            head("REST.PUT.OBJECT") + r#" k "PUT /k HTTP/1.1" 200 - - 4406 41754 28 "# + tail,
            json!({ "method": "PUT", "response_size": null, "object_size": 4406,
                "request_time_ms": 41754, "acl_required": null, "access_point_arn": null }),
        ),
        (
            head("REST.GET.OBJECT") + r#" k "GET /k HTTP/1.1" 404 NoSuchKey 297 - 38 - "# + tail,
            json!({ "status": 404, "error_code": "NoSuchKey", "turn_around_time_ms": null }),
        ),
        (
            head("REST.GET.VERSIONING")
                + r#" - "GET /logs?versioning HTTP/1.1" 200 - 113 - 7 - "#
                + tail,
            json!({ "key": null, "path": "/logs", "query": "versioning" }),
        ),
        // Work of S3 itself is no request.
        (
            head("S3.EXPIRE.OBJECT") + r#" k "-" - - - 1 - - "-" "-" v - - - - - - - -"#,
            json!({ "method": null, "request": null, "status": null, "user_agent": null,
                "version_id": "v", "site": null }),
        ),
        (
            head("BATCH.DELETE.OBJECT") + r#" k - 204 - - 17 - - - - v h= SigV4 c AuthHeader s -"#,
            json!({ "status": 204, "request": null, "user_agent": null, "version_id": "v",
                "signature_version": "SigV4" }),
        ),
        (
            head("REST.COPY.PART").replace("arn:aws:iam::1:user/u", "-")
                + r#" k "PUT /k?partNumber=1 HTTP/1.1" 200 - 1 2 3 4 "#
                + tail,
            json!({ "user": null, "operation": "REST.COPY.PART", "query": "partNumber=1" }),
        ),
        (
            head("REST.HEAD.OBJECT").replace("192.0.2.3", "2001:db8::1")
                + r#" k "HEAD /k HTTP/1.1" 200 - - 9 3 2 "#
                + tail,
            json!({ "host": "2001:db8::1", "method": "HEAD" }),
        ),
        // Lines of 2012 end behind the user agent and the version.
        (
            head("REST.GET.OBJECT") + r#" k "GET /k HTTP/1.1" 200 - 1 1 3 2 "-" "old""#,
            json!({ "user_agent": "old", "version_id": null }),
        ),
        (
            head("REST.GET.OBJECT") + r#" k "GET /k HTTP/1.1" 200 - 1 1 3 2 "-" "old" -"#,
            json!({ "user_agent": "old", "version_id": null }),
        ),
        (
            head("REST.GET.OBJECT")
                + r#" k "GET /k HTTP/1.1" 200 - 1 1 3 2 "#
                + tail
                + " eu-west-1 x",
            json!({ "extra": "eu-west-1 x" }),
        ),
        (
            head("REST.GET.OBJECT") + r#" k "-" 400 - 1 1 3 2 "" "" - - - - - - -"#,
            json!({ "referrer": "", "user_agent": "" }),
        ),
    ] {
        assert_fields(Format::S3Access, &line, expected);
    }
}

/// S3 does not escape quotes, and the user agent is a text of the client.
#[test]
fn a_client_cannot_forge_the_fields_behind_its_user_agent() {
    let forged = r#"x" v h= SigV4 c AuthHeader other.example.org TLSV1.3 - - ""#;
    let line = head("REST.GET.OBJECT")
        + &format!(
            r#" k "GET /k HTTP/1.1" 200 - 1 1 3 2 "-" "{forged}" v h= SigV4 c AuthHeader s T - -"#
        );
    let refusal = refusal(Format::S3Access, &line);
    assert!(refusal.starts_with("not_s3_access: column "), "{refusal}");
    assert!(refusal.contains("could be forged"), "{refusal}");
}

#[test]
fn a_bad_line_is_named_with_its_place() {
    let good = head("REST.GET.OBJECT") + r#" k "GET /k HTTP/1.1" 200 - 1 1 3 2 "-" "a" -"#;
    for (line, expected) in [
        (
            good.replace("Feb", "feb"),
            "bad_time: column 71: expected a time, found [06/feb/2026:00:01:57 +0100] 192…",
        ),
        (
            good.replace(" 200 ", " ok "),
            "not_s3_access: column 177: expected the field status, found ok - 1 1 3 2 \\\"-\\\" \\\"a\\\" -",
        ),
        (
            good.replace("\"-\" \"a\"", "- a"),
            "not_s3_access: column 193: expected the field user_agent, found a -",
        ),
    ] {
        assert_eq!(refusal(Format::S3Access, &line), expected);
    }
    assert_eq!(recognise(good.replace(OWNER, "logs").as_bytes()), None);
}
