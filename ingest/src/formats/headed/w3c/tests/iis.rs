//! Records of IIS: its own choice of fields, and all of them.

use super::IIS;
use super::products::{Case, assert_cases, cases};

const DEFAULT: &str = "#Software: Microsoft Internet Information Services 10.0\n#Version: 1.0\n\
    #Date: 2026-11-26 08:00:00\n\
    #Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip \
    cs(User-Agent) cs(Referer) sc-status sc-substatus sc-win32-status time-taken\n";

#[test]
fn ten_lines_of_iis_have_their_values() {
    let cases = [requests(), refusals()].concat();
    assert_eq!(cases.len(), 10);
    assert_cases(DEFAULT, &cases);
}

fn requests() -> Vec<Case> {
    cases! {
        "2026-11-26 08:00:13 10.0.0.4 GET /shop/item.aspx id=7&size=xl 443 - 192.0.2.7 \
        Mozilla/5.0+(X11;+Linux+x86_64) https://shop.example/ 200 0 0 15" => {
            "time": "2026-11-26T08:00:13Z", "s_ip": "10.0.0.4", "method": "GET",
            "path": "/shop/item.aspx", "query": "id=7&size=xl", "s_port": 443,
            "host": "192.0.2.7", "user_agent": "Mozilla/5.0+(X11;+Linux+x86_64)",
            "referrer": "https://shop.example/", "status": 200, "sc_substatus": 0,
            "sc_win32_status": 0, "time_taken": 15,
        },
        "2026-11-26 08:00:14 2001:db8::4 POST /api/orders - 443 SHOP\\ann 2001:db8::7 \
        okhttp/4.12.0 - 201 0 0 120" => {
            "time": "2026-11-26T08:00:14Z", "s_ip": "2001:db8::4", "method": "POST",
            "path": "/api/orders", "s_port": 443, "user": "SHOP\\ann", "host": "2001:db8::7",
            "user_agent": "okhttp/4.12.0", "status": 201, "sc_substatus": 0,
            "sc_win32_status": 0, "time_taken": 120,
        },
        // A link-local address has its interface.
        "2026-11-26 08:00:15 ::1 OPTIONS * - 80 - fe80::1c2d%14 - - 200 0 0 0" => {
            "time": "2026-11-26T08:00:15Z", "s_ip": "::1", "method": "OPTIONS", "path": "*",
            "s_port": 80, "host": "fe80::1c2d%14", "status": 200, "sc_substatus": 0,
            "sc_win32_status": 0, "time_taken": 0,
        },
        "2026-11-26 11:59:59 10.0.0.4 GET /grüße/ein+Bild%2B1.png - 80 - 192.0.2.8 \
        curl/8.5.0 - 304 0 0 1" => {
            "time": "2026-11-26T11:59:59Z", "s_ip": "10.0.0.4", "method": "GET",
            "path": "/grüße/ein+Bild%2B1.png", "s_port": 80, "host": "192.0.2.8",
            "user_agent": "curl/8.5.0", "status": 304, "sc_substatus": 0, "sc_win32_status": 0,
            "time_taken": 1,
        },
        "2026-11-26 08:00:16 10.0.0.4 GET /find q=\"two\"+words&x=-&y= 80 ann.lee@shop.example \
        192.0.2.9 \"Odd\"+agent/1 http://a.example/?u=\"v\" 200 0 64 86400000" => {
            "time": "2026-11-26T08:00:16Z", "s_ip": "10.0.0.4", "method": "GET", "path": "/find",
            "query": "q=\"two\"+words&x=-&y=", "s_port": 80, "user": "ann.lee@shop.example",
            "host": "192.0.2.9", "user_agent": "\"Odd\"+agent/1",
            "referrer": "http://a.example/?u=\"v\"", "status": 200, "sc_substatus": 0,
            "sc_win32_status": 64, "time_taken": 86_400_000,
        },
    }
}

fn refusals() -> Vec<Case> {
    cases! {
        "2026-11-26 08:00:17 10.0.0.4 GET /private - 443 - 192.0.2.7 - - 401 1 2148074254 2" => {
            "time": "2026-11-26T08:00:17Z", "s_ip": "10.0.0.4", "method": "GET",
            "path": "/private", "s_port": 443, "host": "192.0.2.7", "status": 401,
            "sc_substatus": 1, "sc_win32_status": 2_148_074_254_i64, "time_taken": 2,
        },
        "2026-11-26 08:00:18 10.0.0.4 GET /web.config - 443 - 192.0.2.7 - - 404 8 0 0" => {
            "time": "2026-11-26T08:00:18Z", "s_ip": "10.0.0.4", "method": "GET",
            "path": "/web.config", "s_port": 443, "host": "192.0.2.7", "status": 404,
            "sc_substatus": 8, "sc_win32_status": 0, "time_taken": 0,
        },
        // IIS puts the reason of an ASP page behind its query.
        "2026-11-26 08:00:19 10.0.0.4 POST /a.asp id=1|12|800a000d|Type_mismatch 80 - 192.0.2.7 \
        - - 500 0 0 31" => {
            "time": "2026-11-26T08:00:19Z", "s_ip": "10.0.0.4", "method": "POST",
            "path": "/a.asp", "query": "id=1|12|800a000d|Type_mismatch", "s_port": 80,
            "host": "192.0.2.7", "status": 500, "sc_substatus": 0, "sc_win32_status": 0,
            "time_taken": 31,
        },
        "2026-11-26 08:00:20 10.0.0.4 PROPFIND /dav/ - 80 - 192.0.2.7 \
        Microsoft-WebDAV-MiniRedir/10.0.19045 - 405 0 1 0" => {
            "time": "2026-11-26T08:00:20Z", "s_ip": "10.0.0.4", "method": "PROPFIND",
            "path": "/dav/", "s_port": 80, "host": "192.0.2.7",
            "user_agent": "Microsoft-WebDAV-MiniRedir/10.0.19045", "status": 405,
            "sc_substatus": 0, "sc_win32_status": 1, "time_taken": 0,
        },
        "2026-11-26 08:00:21 10.0.0.4 GET /slow - 443 - 192.0.2.7 a\\b+'c' - \
        502 3 12030 120001" => {
            "time": "2026-11-26T08:00:21Z", "s_ip": "10.0.0.4", "method": "GET", "path": "/slow",
            "s_port": 443, "host": "192.0.2.7", "user_agent": "a\\b+'c'", "status": 502,
            "sc_substatus": 3, "sc_win32_status": 12030, "time_taken": 120_001,
        },
    }
}

#[test]
fn all_fields_of_iis_have_their_values() {
    assert_cases(
        IIS,
        &cases! {
            "2026-11-26 08:00:22 10.0.0.4 GET /f.iso - 443 - 192.0.2.7 HTTP/1.1 Wget/1.21 a=b;+c=d \
            - shop.example:443 206 0 0 5368709120 301 64000" => {
                "time": "2026-11-26T08:00:22Z", "s_ip": "10.0.0.4", "method": "GET",
                "path": "/f.iso", "s_port": 443, "host": "192.0.2.7", "protocol": "HTTP/1.1",
                "user_agent": "Wget/1.21", "cs_cookie": "a=b;+c=d", "site": "shop.example:443",
                "status": 206, "sc_substatus": 0, "sc_win32_status": 0,
                "response_size": 5_368_709_120_i64, "cs_bytes": 301, "time_taken": 64000,
            },
            "2026-11-26 08:00:23 10.0.0.4 - - - 443 - 192.0.2.7 - - - - - 400 0 0 0 0 0" => {
                "time": "2026-11-26T08:00:23Z", "s_ip": "10.0.0.4", "s_port": 443,
                "host": "192.0.2.7", "status": 400, "sc_substatus": 0, "sc_win32_status": 0,
                "response_size": 0, "cs_bytes": 0, "time_taken": 0,
            },
        },
    );
}
