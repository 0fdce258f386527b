//! Families of metrics, and the forms in which Prometheus reads them.

mod protobuf;

use std::fmt::{Display, Write};

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};

use super::durations::Durations;

/// The text format of exposition, version 0.0.4.
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
/// The form that Prometheus asks for where it scrapes native histograms.
const PROTOBUF: HeaderValue = HeaderValue::from_static(
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited",
);

/// Names and values of labels.
pub(super) type LabelPairs<'a> = &'a [(&'a str, &'a str)];

/// Metrics in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct Exposition(Vec<Family>);

#[derive(Debug)]
struct Family {
    name: String,
    /// `counter`, `gauge` or `histogram`.
    kind: &'static str,
    help: String,
    series: Vec<MetricSeries>,
}

#[derive(Debug)]
struct MetricSeries {
    labels: Vec<(String, String)>,
    value: MetricValue,
}

#[derive(Debug)]
enum MetricValue {
    /// A number as the text format writes it.
    Number(String),
    Durations(Durations),
}

impl Exposition {
    /// Begins a family: what is added next belongs to it.
    pub(super) fn family(&mut self, name: &str, kind: &'static str, help: &str) {
        self.0.push(Family {
            name: name.to_owned(),
            kind,
            help: help.to_owned(),
            series: Vec::new(),
        });
    }

    /// Adds a number to the last family.
    pub(super) fn sample(&mut self, labels: LabelPairs<'_>, value: impl Display) {
        self.add(labels, MetricValue::Number(value.to_string()));
    }

    /// Adds a histogram to the last family.
    pub(super) fn durations(&mut self, labels: LabelPairs<'_>, durations: &Durations) {
        self.add(labels, MetricValue::Durations(durations.clone()));
    }

    /// Adds a family of one number.
    pub(super) fn single(
        &mut self,
        name: &str,
        kind: &'static str,
        help: &str,
        value: impl Display,
    ) {
        self.family(name, kind, help);
        self.sample(&[], value);
    }

    /// Appends the families of another.
    pub(super) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    fn add(&mut self, labels: LabelPairs<'_>, value: MetricValue) {
        let labels = labels.iter();
        let labels = labels.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let family = self.0.last_mut().expect("BUG: a family has begun");
        family.series.push(MetricSeries {
            labels: labels.collect(),
            value,
        });
    }

    /// Returns the response in the form that a request accepts.
    pub(super) fn response(&self, headers: &HeaderMap) -> Response {
        match accepts_protobuf(headers) {
            true => ([(header::CONTENT_TYPE, PROTOBUF)], self.protobuf()).into_response(),
            false => ([(header::CONTENT_TYPE, TEXT)], self.text()).into_response(),
        }
    }

    /// Returns the text format.
    fn text(&self) -> String {
        let mut text = String::with_capacity(8192);
        for family in &self.0 {
            let Family {
                name, kind, help, ..
            } = family;
            // Writing to a string does not fail.
            let _ignored = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for MetricSeries { labels, value } in &family.series {
                match value {
                    MetricValue::Number(number) => line(&mut text, name, labels, None, number),
                    MetricValue::Durations(durations) => {
                        histogram(&mut text, name, labels, durations);
                    }
                }
            }
        }
        text
    }
}

fn histogram(text: &mut String, name: &str, labels: &[(String, String)], durations: &Durations) {
    let bucket = format!("{name}_bucket");
    for (end, below) in durations.below() {
        line(text, &bucket, labels, Some(&end.to_string()), below);
    }
    line(text, &bucket, labels, Some("+Inf"), durations.count());
    line(
        text,
        &format!("{name}_sum"),
        labels,
        None,
        durations.sum_s(),
    );
    line(
        text,
        &format!("{name}_count"),
        labels,
        None,
        durations.count(),
    );
}

fn line(
    text: &mut String,
    name: &str,
    labels: &[(String, String)],
    le: Option<&str>,
    value: impl Display,
) {
    text.push_str(name);
    let labels = labels.iter().map(|(name, value)| (&**name, &**value));
    let mut before = '{';
    for (label, value) in labels.chain(le.map(|le| ("le", le))) {
        let value = value.replace('\\', r"\\").replace('"', "\\\"");
        let value = value.replace('\n', r"\n");
        let _ignored = write!(text, "{before}{label}=\"{value}\"");
        before = ',';
    }
    text.push_str(if before == ',' { "} " } else { " " });
    let _ignored = writeln!(text, "{value}");
}

/// Returns whether a request names the protobuf form. Prometheus does so only where it wants native
/// histograms.
fn accepts_protobuf(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    let mut forms = accepted.filter_map(|form| form.to_str().ok());
    forms.any(|forms| {
        forms.split(',').any(|form| {
            form.contains("application/vnd.google.protobuf")
                && form.contains("io.prometheus.client.MetricFamily")
                && form.contains("delimited")
        })
    })
}

#[cfg(test)]
mod tests;
