//! Records as the draft of 1996 has them, and as proxies write them.

use super::products::{Case, assert_cases, cases};

#[test]
fn ten_lines_of_the_draft_have_their_values() {
    let short = times();
    let long = strings();
    assert!(short.len() + long.len() >= 10);
    assert_cases(
        "#Version: 1.0\n#Date: 26-Nov-2026 00:00:00\n#Fields: time cs-method cs-uri\n",
        &short,
    );
    assert_cases(
        "#Version: 1.0\n#Remark: \"two words\" of ours\n\
        #Fields: date time c-ip c-dns cs-method cs-uri-stem cs-uri-query sc-status sc-comment \
        bytes time-taken cached rs(Content-Type)\n",
        &long,
    );
}

/// A time has a second and its parts, or none.
fn times() -> Vec<Case> {
    cases! {
        "09:00:01 GET /shop/list.html" => {
            "time": "2026-11-26T09:00:01Z", "method": "GET", "cs_uri": "/shop/list.html",
        },
        "09:00 GET /without/a/second" => {
            "time": "2026-11-26T09:00:00Z", "method": "GET", "cs_uri": "/without/a/second",
        },
        "11:59:59.25   POST   http://shop.example:8080/?a=b" => {
            "time": "2026-11-26T11:59:59.250000Z", "method": "POST",
            "cs_uri": "http://shop.example:8080/?a=b",
        },
        "00:00:00 - -" => { "time": "2026-11-26T00:00:00Z" },
        "09:00:02\tHEAD\t/with tabs" => {
            "time": "2026-11-26T09:00:02Z", "method": "HEAD", "cs_uri": "/with tabs",
        },
    }
}

/// A text in quotes may hold spaces, and each of its quotes is two. Whole seconds are floats beside
/// others.
fn strings() -> Vec<Case> {
    cases! {
        "2026-11-26 09:00:03 192.0.2.7 host7.example GET /a x=1 200 \"All is well\" 512 0.015 1 \
        \"text/html; charset=utf-8\"" => {
            "time": "2026-11-26T09:00:03Z", "host": "192.0.2.7", "c_dns": "host7.example",
            "method": "GET", "path": "/a", "query": "x=1", "status": 200,
            "sc_comment": "All is well", "bytes": 512, "time_taken": 0.015, "cached": "1",
            "rs_content_type": "text/html; charset=utf-8",
        },
        "2026-11-26 09:00:04 192.0.2.7:51000 - GET /b - 404 \"No \"\"b\"\" here\" 0 2 0 -" => {
            "time": "2026-11-26T09:00:04Z", "host": "192.0.2.7:51000", "method": "GET",
            "path": "/b", "status": 404, "sc_comment": "No \"b\" here", "bytes": 0,
            "time_taken": 2.0, "cached": "0",
        },
        "2026-11-26 09:00:05 2001:db8::7 - PUT /grüße - 507 Full 9007199254740993 1.5 0 a/b" => {
            "time": "2026-11-26T09:00:05Z", "host": "2001:db8::7", "method": "PUT",
            "path": "/grüße", "status": 507, "sc_comment": "Full",
            "bytes": 9_007_199_254_740_993_i64, "time_taken": 1.5, "cached": "0",
            "rs_content_type": "a/b",
        },
        "2026-11-26 09:00:06 192.0.2.7 - - - - - \"\" - - - -" => {
            "time": "2026-11-26T09:00:06Z", "host": "192.0.2.7",
        },
        "2026-11-26 09:00:07 192.0.2.7 - GET /c - 200 it\"s 7 0 0 -" => {
            "time": "2026-11-26T09:00:07Z", "host": "192.0.2.7", "method": "GET", "path": "/c",
            "status": 200, "sc_comment": "it\"s", "bytes": 7, "time_taken": 0.0, "cached": "0",
        },
    }
}

/// A proxy divides with tabs, between which spaces need no quotes.
#[test]
fn lines_of_a_proxy_have_their_values() {
    assert_cases(
        "#Software: a proxy\n#Version: 1.0\n#Date: 2026-11-26 08:00:00\n\
        #Fields: c-ip\tcs-username\tc-agent\tdate\ttime\tr-host\ttime-taken\tsc-bytes\t\
        cs-bytes\ts-operation\tcs-uri\tsc-status\n",
        &cases! {
            "10.0.0.7\tSHOP\\ann lee\tMozilla/5.0 (X11; Linux)\t2026-11-26\t08:00:24\t\
            www.example\t157\t2048\t311\tGET\thttp://www.example/a b\t200" => {
                "time": "2026-11-26T08:00:24Z", "host": "10.0.0.7", "user": "SHOP\\ann lee",
                "c_agent": "Mozilla/5.0 (X11; Linux)", "r_host": "www.example",
                "time_taken": 157, "response_size": 2048, "cs_bytes": 311, "s_operation": "GET",
                "cs_uri": "http://www.example/a b", "status": 200,
            },
            "10.0.0.7\tanonymous\t-\t2026-11-26\t08:00:25\t-\t-\t-\t-\t-\t-\t12209" => {
                "time": "2026-11-26T08:00:25Z", "host": "10.0.0.7", "user": "anonymous",
                "status": 12209,
            },
        },
    );
}
