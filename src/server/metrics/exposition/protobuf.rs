//! The protobuf form: `io.prometheus.client.MetricFamily` of Prometheus' client model, each behind
//! its length. It has native histograms, which the text format does not.

use prost::Message;

use super::{Exposition, Family, MetricSeries, MetricValue};
use crate::server::metrics::durations::{Durations, SCHEMA};

/// The widest zero bucket of Prometheus' own clients, 2^-128: durations of 0 alone.
const ZERO_THRESHOLD: f64 = 2.938_735_877_055_719e-39;

#[derive(Clone, PartialEq, Message)]
pub(super) struct MetricFamily {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    help: String,
    #[prost(int32, optional, tag = "3")]
    kind: Option<i32>,
    #[prost(message, repeated, tag = "4")]
    pub(super) metric: Vec<Metric>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Metric {
    #[prost(message, repeated, tag = "1")]
    label: Vec<LabelPair>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<PlainValue>,
    #[prost(message, optional, tag = "3")]
    counter: Option<PlainValue>,
    #[prost(message, optional, tag = "7")]
    pub(super) histogram: Option<NativeHistogram>,
}

#[derive(Clone, PartialEq, Message)]
struct LabelPair {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

/// `Gauge` and `Counter`.
#[derive(Clone, PartialEq, Message)]
struct PlainValue {
    #[prost(double, optional, tag = "1")]
    value: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NativeHistogram {
    #[prost(uint64, tag = "1")]
    sample_count: u64,
    #[prost(double, tag = "2")]
    sample_sum: f64,
    #[prost(message, repeated, tag = "3")]
    bucket: Vec<ClassicBucket>,
    #[prost(sint32, optional, tag = "5")]
    schema: Option<i32>,
    #[prost(double, optional, tag = "6")]
    zero_threshold: Option<f64>,
    #[prost(uint64, optional, tag = "7")]
    zero_count: Option<u64>,
    #[prost(message, repeated, tag = "12")]
    pub(super) positive_span: Vec<BucketSpan>,
    #[prost(sint64, repeated, tag = "13")]
    pub(super) positive_delta: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct ClassicBucket {
    #[prost(uint64, tag = "1")]
    cumulative_count: u64,
    #[prost(double, tag = "2")]
    upper_bound: f64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct BucketSpan {
    /// Empty buckets before the span: since its predecessor, of the first one since bucket 0.
    #[prost(sint32, optional, tag = "1")]
    pub(super) offset: Option<i32>,
    #[prost(uint32, optional, tag = "2")]
    pub(super) length: Option<u32>,
}

impl Exposition {
    /// Returns the protobuf form.
    pub(super) fn protobuf(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(8192);
        for family in &self.0 {
            let message = message_of(family);
            message
                .encode_length_delimited(&mut out)
                .expect("BUG: a vector grows");
        }
        out
    }
}

fn message_of(family: &Family) -> MetricFamily {
    MetricFamily {
        name: family.name.clone(),
        help: family.help.clone(),
        kind: Some(match family.kind {
            "counter" => 0,
            "gauge" => 1,
            _ => 4,
        }),
        metric: family
            .series
            .iter()
            .map(|s| metric(family.kind, s))
            .collect(),
    }
}

fn metric(kind: &str, series: &MetricSeries) -> Metric {
    let label = series.labels.iter().map(|(name, value)| LabelPair {
        name: name.clone(),
        value: value.clone(),
    });
    let mut metric = Metric {
        label: label.collect(),
        ..Metric::default()
    };
    match &series.value {
        MetricValue::Durations(durations) => metric.histogram = Some(histogram(durations)),
        MetricValue::Number(number) => {
            let value = Some(PlainValue {
                value: number.parse().ok(),
            });
            match kind {
                "counter" => metric.counter = value,
                _ => metric.gauge = value,
            }
        }
    }
    metric
}

/// Returns a histogram with its classic buckets and its native ones.
pub(super) fn histogram(durations: &Durations) -> NativeHistogram {
    let classic = durations.below().map(|(end, below)| ClassicBucket {
        cumulative_count: below,
        upper_bound: end,
    });
    let mut native = NativeHistogram {
        sample_count: durations.count(),
        sample_sum: durations.sum_s(),
        bucket: classic.collect(),
        schema: Some(SCHEMA),
        zero_threshold: Some(ZERO_THRESHOLD),
        zero_count: Some(durations.zeros()),
        ..NativeHistogram::default()
    };
    let (mut next, mut before) = (0, 0);
    for (index, count) in durations.native() {
        match native.positive_span.last_mut() {
            Some(span) if index == next => span.length = span.length.map(|length| length + 1),
            _ => native.positive_span.push(BucketSpan {
                offset: Some(index - next),
                length: Some(1),
            }),
        }
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        native.positive_delta.push(count - before);
        (next, before) = (index + 1, count);
    }
    if durations.native().next().is_none() {
        // By a span alone Prometheus knows an empty histogram for a native one.
        native.positive_span.push(BucketSpan {
            offset: Some(0),
            length: Some(0),
        });
    }
    native
}
