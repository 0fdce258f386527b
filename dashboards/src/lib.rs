//! The page at `/`: its markup, style and scripts, carried inside the binary; and the files by
//! which Grafana shows the same ([`grafana`]). Both have one source of queries ([`panels`]).
//!
//! This crate knows no store and imports none of our crates. The page reads everything through
//! `POST /api/v1/sql`, `GET /api/v1/streams` and `GET /api/v1/tail`, and logs in through
//! `POST /api/v1/login`. A listener calls [`asset`] for a path and sends
//! [`CONTENT_SECURITY_POLICY`] with every answer.
//!
//! Invariants, each kept by a test:
//! * log text is hostile: no script of the page reads a string as markup or as code;
//! * nothing is loaded from another host, and no script or handler stands in the markup;
//! * every file that the page names is here, and every file here is named by the page.
//!
//! The charts are SVG drawn by hand (`page/chart.js`). The `plotly` crate carries a chart library
//! of 4.7 MB; bars and lines with axes and a read-out need a few kilobytes, are on the screen
//! sooner, and run under a policy that forbids inline scripts and `eval`, which that library's
//! embedding does not.

pub mod grafana;
pub mod panels;

/// One file of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asset {
    /// The value of the `Content-Type` header.
    pub content_type: &'static str,
    /// The bytes to send.
    pub body: &'static [u8],
}

/// The policy under which the page runs: scripts, styles, pictures and connections from its own
/// origin only, nothing inline, and no other site may frame it.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self' data:; connect-src 'self'; object-src 'none'; base-uri 'none'; \
     form-action 'self'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! files {
    ($($path:literal $content_type:ident $file:literal)*) => {
        /// Every file of the page with the path it is served at.
        const FILES: &[(&str, Asset)] = &[
            $(($path, Asset { content_type: $content_type, body: include_bytes!(concat!("page/", $file)) }),)*
            ("/statements.js", Asset { content_type: JS, body: panels::STATEMENTS.as_bytes() }),
        ];
    };
}

files! {
    "/" HTML "index.html"
    "/page.css" CSS "page.css"
    "/icon.svg" SVG "icon.svg"
    "/page.js" JS "page.js"
    "/add.js" JS "add.js"
    "/boards.js" JS "boards.js"
    "/chart.js" JS "chart.js"
    "/dom.js" JS "dom.js"
    "/login.js" JS "login.js"
    "/panel.js" JS "panel.js"
    "/queries.js" JS "queries.js"
    "/slice.js" JS "slice.js"
    "/sql.js" JS "sql.js"
    "/state.js" JS "state.js"
    "/tail.js" JS "tail.js"
    "/zone.js" JS "zone.js"
}

/// Returns the file served at `path` (`/` is the page itself), `None` where there is none. `path`
/// is the path of the request's URL, without its query.
pub fn asset(path: &str) -> Option<Asset> {
    FILES
        .iter()
        .find(|(at, _)| *at == path)
        .map(|(_, asset)| *asset)
}

/// Returns every path that [`asset`] answers, for a listener that registers routes one by one.
pub fn paths() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(at, _)| *at)
}

#[cfg(test)]
mod tests;
