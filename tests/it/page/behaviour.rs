//! The page in use: a script of the test clicks in a real browser and reads what is shown.

use super::proxy::Proxy;
use super::{chromium, dump_after};
use crate::support::{Home, Server};

/// Prologue of every driver: functions that read the page and wait. Errors are written into the
/// document.
const PROLOGUE: &str = r#"
const $ = (id) => document.getElementById(id);
const shown = (id) => !$(id).closest("[hidden]");
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const until = async (what, ok) => {
  for (let i = 0; i < 600; i += 1) {
    if (ok()) return;
    await sleep(50);
  }
  throw new Error(`never: ${what}; ${location.search}; ${$("trouble").textContent} ${[...document.querySelectorAll(".panel")].map((panel) => panel.innerText).join("\n").slice(0, 900)}`);
};
const same = (found, wanted, what) => {
  if (JSON.stringify(found) !== JSON.stringify(wanted)) throw new Error(`${what}: ${JSON.stringify(found)}, not ${JSON.stringify(wanted)}`);
};
const label = (id) => $(id).querySelector("svg").getAttribute("aria-label") ?? "";
const pickBar = (id, at) => {
  const svg = $(id).querySelector("svg");
  svg.dispatchEvent(new KeyboardEvent("keydown", { key: at }));
  svg.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
};
const drawn = (ids) => until(`drawn ${ids}`, () => shown("panel-totals") && ids.every((id) => !$(id).classList.contains("stale")));
const ALL = ["panel-totals", "panel-minute", "panel-status", "panel-size", "panel-top", "panel-visitors", "panel-slice", "panel-tail"];
const drive = (steps) => steps().then(() => "passed", (error) => `failed: ${error.message}`).then((said) => { document.body.dataset.result = said; });
"#;

/// Opens the page at `query` and lets the driver act; it must end without a complaint.
#[track_caller]
fn drive(server: &Server, home: &Home, query: &str, steps: &str) {
    let Some(browser) = chromium() else { return };
    let driver = format!("\n{{{PROLOGUE}\ndrive(async () => {{ {steps} }});}}\n");
    let proxy = Proxy::with_driver(server.address.clone(), String::new(), driver);
    let url = format!("{}/{query}", proxy.url);
    let (dom, log) = dump_after(browser, home, &url, 60_000);
    let said = dom
        .split_once("data-result=\"")
        .and_then(|(_, rest)| rest.split_once('"'))
        .map(|(said, _)| said);
    assert_eq!(said, Some("passed"), "{log}");
}

fn line(host: &str, time: &str, path: &str, status: u16) -> String {
    format!("{host} - - [{time} +0000] \"GET {path} HTTP/1.1\" {status} 100 \"-\" \"test\"\n")
}

/// Returns four hours, the attack in the second of them; within one second a redirect, then its
/// answer.
fn attack() -> String {
    let mut log = String::new();
    for i in 0..240 {
        let time = format!("20/May/2015:{:02}:{:02}:10", 10 + i / 60, i % 60);
        log += &line("192.0.2.1", &time, "/calm", 200);
    }
    for i in 0..2400 {
        let time = format!("20/May/2015:12:00:{:02}", i % 59);
        log += &line("203.0.113.9", &time, &format!("/login{}", i % 7), 401);
    }
    for (path, status) in [("/moved", 302), ("/answer", 200)] {
        log += &line("198.51.100.7", "20/May/2015:13:30:00", path, status);
    }
    log
}

const CHOSEN: &str = "?stream=access&from=2015-05-20T10:00:00Z&to=2015-05-20T14:00:00Z&zone=UTC";

#[test]
fn every_panel_covers_the_chosen_range_and_a_bar_leads_into_it() {
    let home = Home::new();
    let server = Server::start(&home.data);
    server.ingest("access?format=combined", attack().as_bytes());
    let steps = r#"
        await drawn(ALL);
        same($("tile-hits").textContent, "2,642", "hits");
        same(label("chart-minute").includes("240 buckets. hits: highest 2,401,"), true, label("chart-minute"));
        same($("h-minute").textContent, "Hits per minute", "the chart's name");
        same($("panel-minute").querySelector(".figure").textContent, "2.64k", "the chart's sum");
        same(label("chart-hour").includes("4 buckets"), true, label("chart-hour"));
        same(shown("panel-day"), false, "a chart of days for four hours");
        same($("legend-status").innerText.replaceAll(/\s+/g, " ").includes("4xx 2.4k"), true, $("legend-status").innerText);
        same($("panel-slice").querySelector("tbody").innerText.includes("/calm"), true, "the slice");
        // The bar of an hour narrows the range to it; its minutes lead to their events.
        pickBar("chart-hour", "Home");
        await drawn(ALL);
        same($("tile-hits").textContent, "60", "hits of an hour");
        same(new URLSearchParams(location.search).get("to"), "2015-05-20T11:00:00Z", "the end");
        pickBar("chart-minute", "Home");
        await until("the minute", () => $("h-slice").textContent === "One minute" && shown("slice-hosts"));
        await drawn(ALL);
        same($("slice-summary").textContent.startsWith("1 event: at 10:00:10"), true, $("slice-summary").textContent);
        same($("tile-hits").textContent, "60", "the range stays");
        // Back, twice: the hour, then the four hours.
        history.back();
        await until("the day's slice", () => $("h-slice").textContent === "One host, one date");
        history.back();
        await until("four hours", () => $("tile-hits").textContent === "2,642");
        history.forward();
        await until("the hour again", () => $("tile-hits").textContent === "60");
    "#;
    drive(&server, &home, CHOSEN, steps);
}

#[test]
fn a_slice_of_thousands_is_paged_in_the_order_of_arrival() {
    let home = Home::new();
    let server = Server::start(&home.data);
    server.ingest("access?format=combined", attack().as_bytes());
    let query = format!("{CHOSEN}&host=203.0.113.9&date=2015-05-20");
    let steps = r#"
        const rows = () => $("slice-rows").querySelectorAll("tr").length;
        await drawn(ALL);
        same([rows(), $("slice-summary").textContent], [1000, "2,400 events: first 12:00:00, last 12:00:58 · 4xx 2,400 · 234 KiB"], "the first page");
        $("slice-more").click();
        await until("the second page", () => rows() === 2000);
        $("slice-more").click();
        await until("the third page", () => rows() === 2400);
        same(shown("slice-more"), false, "no more");
        const found = [...$("slice-rows").querySelectorAll("tr")].map((row) => [row.cells[0].textContent, row.cells[3].textContent]);
        // The line i of the log came at second i % 59: by time, then as they came.
        const wanted = Array.from({ length: 2400 }, (_, i) => i).sort((a, b) => a % 59 - b % 59 || a - b)
          .map((i) => [`12:00:${String(i % 59).padStart(2, "0")}`, `/login${i % 7}`]);
        same(found, wanted, "rows");
        // A redirect stands before its answer; in the tail, newest first, after it.
        $("slice-host").value = "198.51.100.7";
        $("slice-form").requestSubmit();
        await until("the other host", () => rows() === 2);
        same([...$("slice-rows").querySelectorAll("tr")].map((row) => row.cells[3].textContent), ["/moved", "/answer"], "the slice's order");
        const tail = [...$("tail-rows").querySelectorAll("tr")].map((row) => row.cells[4].textContent);
        same(tail.indexOf("/moved") - tail.indexOf("/answer"), 1, "the tail's order");
    "#;
    drive(&server, &home, &query, steps);
}

#[test]
fn each_panel_recovers_by_itself_after_an_outage() {
    let home = Home::new();
    let server = Server::start(&home.data);
    server.ingest("access?format=combined", attack().as_bytes());
    let steps = r#"
        await drawn(ALL);
        await fetch("/test/down");
        $("zone").value = "Europe/Berlin";
        $("zone").dispatchEvent(new Event("change"));
        await until("an outage", () => shown("trouble") && $("trouble").textContent.includes("cannot be reached"));
        await until("faded", () => ["panel-slice", "panel-tail", "panel-totals"].every((id) => $(id).classList.contains("stale")));
        await fetch("/test/up");
        await drawn(ALL);
        await until("no complaint", () => !shown("trouble"));
        same($("tail-rows").querySelectorAll("tr").length, 50, "the tail");
        same($("slice-rows").querySelectorAll("tr").length, 240, "the slice");
    "#;
    drive(&server, &home, CHOSEN, steps);
}

#[test]
fn another_stream_brings_its_own_range_and_the_slice_stays_with_its_host() {
    let home = Home::new();
    let server = Server::start(&home.data);
    server.ingest("access?format=combined", attack().as_bytes());
    let later = line("192.0.2.77", "03/Mar/2021:07:00:00", "/other", 200);
    server.ingest("other?format=combined", later.as_bytes());
    let steps = r#"
        await drawn(ALL);
        const host = $("slice-host").value;
        same(host, "192.0.2.1", "the host of the newest event");
        // A newer event of another host has come meanwhile.
        const body = '198.51.100.99 - - [20/May/2015:13:59:50 +0000] "GET /new HTTP/1.1" 200 1 "-" "test"\n';
        await fetch("/api/v1/ingest/access?format=combined", { method: "POST", body });
        $("path").value = "/answer";
        $("path").dispatchEvent(new Event("change"));
        await until("one page", () => $("tile-hits").textContent === "1");
        await drawn(ALL);
        same($("slice-host").value, host, "the host stays");
        $("stream").value = "other";
        $("stream").dispatchEvent(new Event("change"));
        await until("the range of its data", () => new URLSearchParams(location.search).get("to") === "2021-03-04T00:00:00Z");
        await drawn(ALL);
        same($("tile-hits").textContent, "1", "hits of the other stream");
        history.back();
        await until("the first stream", () => $("stream").value === "access" && $("path").value === "/answer");
        same(new URLSearchParams(location.search).get("to"), "2015-05-20T14:00:00Z", "the range as it was");
    "#;
    drive(&server, &home, CHOSEN, steps);
}

#[test]
fn the_dialog_to_add_data_shows_lines_to_paste_what_arrives_and_what_is_quarantined() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let good = line("192.0.2.1", "20/May/2015:10:00:10", "/calm", 200);
    let bad = "<img src=x onerror=alert(1)>\n";
    server.ingest("web?format=combined", good.repeat(3) + bad);
    drive(
        &server,
        &home,
        "?stream=web#add",
        r#"
  await until("a dialog", () => $("add").open);
  const rows = (id) => [...$(id).rows].map((row) => [...row.cells].map((cell) => cell.textContent));
  await until("what arrived", () => rows("add-arrivals")[0]?.length === 8);
  same(rows("add-arrivals")[0].slice(0, 6), ["logmill", "web", "3", "1", "0", "0"], "what arrived");
  same(rows("add-quarantine").length, 1, "reasons");
  same(rows("add-quarantine")[0][0], "web", "the stream of a reason");
  if (!$("add-lines").textContent.includes(`logmill ship /var/log/nginx/access.log --server ${location.origin} --stream web`)) throw new Error($("add-lines").textContent);
  const ways = [...$("add-way").options].map((option) => option.text);
  $("add-way").value = String(ways.indexOf("curl"));
  $("add-way").dispatchEvent(new Event("change"));
  if (!$("add-lines").textContent.includes(`${location.origin}/api/v1/ingest/web`)) throw new Error($("add-lines").textContent);
  // More arrives while the dialog is open.
  const body = '192.0.2.1 - - [20/May/2015:10:00:10 +0000] "GET /more HTTP/1.1" 200 1 "-" "-"\n';
  const sent = await fetch("/api/v1/ingest/web?format=combined", { method: "POST", body });
  same([sent.status, (await sent.json()).accepted], [200, 1], "the answer to a line");
  await until("the next line", () => rows("add-arrivals")[0][2] === "4");
  $("add-close").click();
  same($("add").open, false, "the dialog is closed");
"#,
    );
}
