//! Every panel: its query, and how the answer is to be shown. Grafana's dashboards are made of
//! these entries, and the page takes the queries that both have from here (`/statements.js`).
//!
//! A query is a template. What stands in braces differs between the two and is replaced when a
//! file is made:
//!
//! | word | Grafana | the page |
//! |---|---|---|
//! | `{t}` | `"time"`, the name that Grafana looks for | `t` |
//! | `{bucket}` | `$__timeGroup(…)` | `time_bucket(…)` in the view's zone |
//! | `{hits}` | a measure over the rows of `{events}` | the same |
//! | `{events(a, b)}` | cells with these columns, by `$__interval` | cells that cover the range |
//! | `{raw}` | raw events, up to the end of a `WHERE` | the same |
//!
//! Other measures are `{bytes}`, `{visitors}`, `{p50}`, `{p90}` and `{p99}`.
//! Other words in braces are of Grafana alone: `{counts(a, b)}` is `{events(a, b)}` without
//! conditions on keys, `{latency}` the field that an operator named. Macros (`$__timeFilter`) and
//! variables (`${stream}`) are left for Grafana to replace.

mod host;
mod overview;
mod store;

pub use host::HOST;
pub use overview::{LATENCY, OVERVIEW};
pub use store::STORE;

/// One panel.
#[derive(Debug, Clone, Copy)]
pub struct Panel {
    /// Unique among all panels.
    pub name: &'static str,
    /// Heading; may contain Grafana's variables.
    pub title: &'static str,
    /// One or two sentences about the meaning of the numbers.
    pub description: &'static str,
    /// Unit of columns that name none, by Grafana's identifier.
    pub unit: &'static str,
    /// Form of the panel.
    pub kind: PanelKind,
    /// Rows that `{events}` and `{raw}` stand for.
    pub scope: Scope,
    /// Place on a grid of 24 columns: left, top, width, height.
    pub at: (u8, u8, u8, u8),
    /// Columns of the answer that are shown, without `{t}`. Others are hidden.
    pub columns: &'static [PanelColumn],
    /// The template of the query.
    pub sql: &'static str,
}

/// Form of a panel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PanelKind {
    /// The newest value of each column, in large type.
    Stat,
    /// Columns over time, one on top of the other.
    Bars,
    /// Columns over time as lines, on a logarithmic axis.
    Lines,
    /// Counts over time of each value of the column `metric`.
    Metrics,
    /// One upright bar for each row.
    Categories,
    /// One bar from left to right for each row.
    Ranking,
    /// The rows.
    Table,
    /// Log lines, which the Loki data source answers.
    Logs,
}

/// Rows that a panel is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Events of a stream, of the chosen sites and pages.
    Pages,
    /// Events of one host.
    Host,
    /// The store.
    Store,
}

/// A column of an answer.
#[derive(Debug, Clone, Copy)]
pub struct PanelColumn {
    /// Name in the query.
    pub name: &'static str,
    /// Name that is shown.
    pub title: &'static str,
    /// Unit by Grafana's identifier; empty for the panel's.
    pub unit: &'static str,
    /// Values from which the column is yellow and red; none for a column without colors.
    pub limits: Option<(f64, f64)>,
    /// Dashboard that a value leads to.
    pub link: Option<Link>,
}

/// Dashboard that a value of a table leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// The host of the row.
    Host,
    /// The page of the row.
    Path,
}

/// Returns a column with the panel's unit.
const fn column(name: &'static str, title: &'static str) -> PanelColumn {
    PanelColumn {
        name,
        title,
        unit: "",
        limits: None,
        link: None,
    }
}

impl PanelColumn {
    const fn unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    const fn limits(self, yellow: f64, red: f64) -> Self {
        let limits = Some((yellow, red));
        Self { limits, ..self }
    }

    const fn link(self, to: Link) -> Self {
        let link = Some(to);
        Self { link, ..self }
    }
}

/// Classes of status.
const CLASSES: &[PanelColumn] = &[
    column("s2", "2xx"),
    column("s3", "3xx"),
    column("s4", "4xx"),
    column("s5", "5xx"),
    column("other", "other"),
];

/// Reads a template of `panels/`.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!("../../panels/", $name, ".sql"))
    };
}
use sql;

/// Makes a script that exports templates of `panels/` under their names.
macro_rules! statements {
    ($($name:literal)*) => {
        concat!(
            "// The templates of queries that the page and Grafana's dashboards share.\n\n",
            "export const STATEMENTS = {\n",
            $("  ", $name, ": `", include_str!(concat!("../panels/", $name, ".sql")), "`,\n",)*
            "};\n",
        )
    };
}

/// The script of the page with the templates that it shares.
pub(crate) const STATEMENTS: &str = statements! {
    "hits" "classes" "totals" "visitors" "visitors_by_bucket" "sizes" "top_paths" "newest"
    "slice_summary" "slice_page"
};
