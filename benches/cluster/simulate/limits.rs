//! Limits, and the figure that breaks first.

use storage::Manifest;

use super::Case;
use super::bill::Bill;
use super::peers::Tokens;
use super::shape::NODE_BYTES;
use super::table::{self, Table};

const COMMIT_BYTES_MAX: f64 = 10e6;
const COMMIT_MS_MAX: f64 = 100.0;
const PLAN_MS_MAX: f64 = 100.0;
const TOKENS_BYTES_MAX: f64 = 1e6;
/// Share of the bill of one thing that is no storage.
const BILL_SHARE_MAX: f64 = 0.5;
/// Cores that edits of manifests may take, by those of events.
const COMMIT_CORES_MAX: f64 = 0.1;
/// Share of a node's memory for the manifests of its shards.
const MEMORY_SHARE_MAX: f64 = 0.25;
/// Bytes of manifests written for one byte of parts.
const WRITTEN_MAX: f64 = 1.0;

/// The next step, where a limit is passed.
const PAGES: &str = "pages: immutable lists of sealed partitions, and the manifest names pages";
const SIDECAR: &str = "a sidecar with the checksums of its blocks beside each part, and pages";
const LARGER: &str = "larger merged parts of quiet days, and pages that are not read for old days";
const PRUNE: &str = "pages with their range of time, which planning leaves out as a whole";
const DIVIDE: &str = "divide a question by groups of shards";
const ZONES: &str = "gateways and readers in the owner's zone (client.rack), compressed records";
const PUSH: &str = "owners push their address; CURRENT is read at the start and on trouble";
const SEALS: &str = "longer waits before a seal, and one edit for several merges";

/// The kind of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It grows with the days that are kept.
    Growing,
    /// It is the same from the first day.
    Steady,
    /// A share of the bill: nothing breaks.
    Price,
}

/// A figure and its limit.
struct Limit {
    what: &'static str,
    shown: Shown,
    value: f64,
    max: f64,
    kind: Kind,
    /// The value without a history.
    from: f64,
    next: &'static str,
}

impl Limit {
    fn ratio(&self) -> f64 {
        self.value / self.max
    }

    fn is_passed(&self) -> bool {
        self.ratio() > 1.0
    }

    /// Returns the days of history after which it is passed, if it is.
    fn day(&self, days: u32) -> f64 {
        let share = (self.max - self.from).max(0.0) / (self.value - self.from);
        match self.kind {
            Kind::Growing => f64::from(days) * share,
            Kind::Steady | Kind::Price => 0.0,
        }
    }

    /// Says after how much history it is passed.
    fn passed(&self, days: u32) -> String {
        match (self.is_passed(), self.day(days)) {
            (false, _) => String::new(),
            (true, day) if day > 0.0 => format!("{day:.1} days"),
            (true, _) => "at once".to_owned(),
        }
    }
}

fn share(value: f64) -> String {
    format!("{:.0} %", value * 100.0)
}

fn times(value: f64) -> String {
    format!("{value:.2} times")
}

/// Formats a figure.
type Shown = fn(f64) -> String;

/// Returns a function that makes limits of a kind.
fn limits_of(kind: Kind) -> impl Fn(&'static str, Shown, (f64, f64), &'static str) -> Limit {
    move |what, shown, (value, max), next| Limit {
        what,
        shown,
        value,
        max,
        kind,
        from: 0.0,
        next,
    }
}

/// Returns the limits of the manifest of a shard.
fn of_manifest(case: &Case) -> Vec<Limit> {
    let (m, growing) = (&case.measured, limits_of(Kind::Growing));
    let json_max = Manifest::JSON_BYTES_MAX as f64;
    let plan = m.planned;
    let (commit, json) = ((m.commit_bytes, COMMIT_BYTES_MAX), (m.json_bytes, json_max));
    vec![
        growing("bytes of a commit", table::bytes, commit, SIDECAR),
        growing(
            "CPU of a commit",
            table::ms,
            (m.commit_ms, COMMIT_MS_MAX),
            PAGES,
        ),
        growing(
            "JSON of a manifest (the format)",
            table::bytes,
            json,
            SIDECAR,
        ),
        Limit {
            from: plan.without_history(plan.hour),
            ..growing(
                "plan of an hour",
                table::ms,
                (plan.hour.ms, PLAN_MS_MAX),
                PRUNE,
            )
        },
        Limit {
            from: plan.without_history(plan.day),
            ..growing(
                "plan of a day",
                table::ms,
                (plan.day.ms, PLAN_MS_MAX),
                LARGER,
            )
        },
        growing(
            "plan of all days",
            table::ms,
            (plan.all.ms, PLAN_MS_MAX),
            LARGER,
        ),
    ]
}

/// Returns the limits of the cluster.
fn of_cluster(case: &Case, bill: &Bill, tokens: &Tokens) -> Vec<Limit> {
    let [growing, steady, price] = [Kind::Growing, Kind::Steady, Kind::Price].map(limits_of);
    let dollars = bill.dollars();
    let shards_of_node = f64::from(case.size.shards) / bill.nodes;
    let memory = shards_of_node.max(1.0) * case.measured.memory_bytes / NODE_BYTES;
    let of_bill = |value: f64| (value / dollars.all(), BILL_SHARE_MAX);
    let written = (bill.commit_bytes / bill.part_bytes, WRITTEN_MAX);
    let commits = (bill.commit_cores / bill.event_cores, COMMIT_CORES_MAX);
    let states = (tokens.all_bytes(), TOKENS_BYTES_MAX);
    let front = (tokens.front.ms + tokens.all_decode_ms(), PLAN_MS_MAX);
    vec![
        growing("manifests written for parts", times, written, PAGES),
        growing("cores for commits", share, commits, PAGES),
        growing(
            "memory of a node for manifests",
            share,
            (memory, MEMORY_SHARE_MAX),
            PAGES,
        ),
        steady("states of all shards", table::bytes, states, DIVIDE),
        steady(
            "plan over all shards, states read",
            table::ms,
            front,
            DIVIDE,
        ),
        price(
            "bill: journal between zones",
            share,
            of_bill(dollars.between_zones),
            ZONES,
        ),
        price(
            "bill: looks at CURRENT",
            share,
            of_bill(dollars.looks),
            PUSH,
        ),
        price("bill: puts", share, of_bill(dollars.puts), SEALS),
    ]
}

/// Prints the limits of each case, and the figure that breaks first in each.
pub(crate) fn conclude(cases: &[Case], bills: &[Bill], tokens: &[Tokens]) {
    let mut first = Table::new(&["breaks first", "figure", "passed after", "next step"]);
    let mut prices = Table::new(&["most of the bill", "figure", "share", "next step"]);
    for (case, bill) in cases.iter().zip(bills) {
        let of_size = tokens.iter().find(|t| t.size.shards == case.size.shards);
        let tokens = of_size.expect("BUG: each size has its states");
        let mut limits = of_manifest(case);
        limits.extend(of_cluster(case, bill, tokens));
        limits.sort_by(|a, b| b.ratio().total_cmp(&a.ratio()));
        print(case, &limits);
        first.row(first_row(case, &limits));
        if let Some(price) = limits.iter().find(|limit| limit.kind == Kind::Price) {
            let next = if price.is_passed() { price.next } else { "" };
            let shown = (price.shown)(price.value);
            prices.row([
                case_name(case),
                price.what.to_owned(),
                shown,
                next.to_owned(),
            ]);
        }
    }
    first.print("What breaks first");
    prices.print("Most of the bill");
}

fn case_name(case: &Case) -> String {
    let (size, rule, days) = (case.size.name, case.rule.name, case.days);
    format!("{size}, parts {rule}, {days} days")
}

fn print(case: &Case, limits: &[Limit]) {
    let mut table = Table::new(&["figure", "value", "limit", "of it", "passed after"]);
    for limit in limits {
        table.row([
            limit.what.to_owned(),
            (limit.shown)(limit.value),
            (limit.shown)(limit.max),
            format!("{:.2}", limit.ratio()),
            limit.passed(case.days),
        ]);
    }
    table.print(&format!("Limits: {}", case_name(case)));
}

/// Returns the row of the figure that passes its limit earliest; of several, the one that is
/// farthest beyond it, since the limits come in this order.
fn first_row(case: &Case, limits: &[Limit]) -> [String; 4] {
    let beyond = limits.iter().filter(|limit| limit.is_passed());
    let beyond = beyond.filter(|limit| limit.kind != Kind::Price);
    let first = beyond.min_by(|a, b| a.day(case.days).total_cmp(&b.day(case.days)));
    let row = first.map(|limit| {
        let figure = format!("{}, {}", limit.what, (limit.shown)(limit.value));
        [figure, limit.passed(case.days), limit.next.to_owned()]
    });
    let nothing = || ["nothing".to_owned(), String::new(), String::new()];
    let [figure, passed, next] = row.unwrap_or_else(nothing);
    [case_name(case), figure, passed, next]
}
