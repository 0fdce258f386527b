//! A LogQL query as a tree.

/// A query.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// A query for lines.
    Log(LogQuery),
    /// A query for numbers over time.
    Metric(Metric),
}

/// Selects lines and changes them: `{stream="access"} |= "GET" | json`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LogQuery {
    /// The conditions in braces, all of which hold.
    pub matchers: Vec<Matcher>,
    /// The stages of the pipeline, in order.
    pub stages: Vec<Stage>,
}

/// A comparison of a label with a text or a regular expression.
#[derive(Debug, Clone, PartialEq)]
pub struct Matcher {
    /// Name of the label.
    pub label: String,
    /// The operator.
    pub op: MatchOp,
    /// The text or pattern.
    pub value: String,
}

/// An operator of a [`Matcher`]. Patterns match the whole value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MatchOp {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `=~`
    Matches,
    /// `!~`
    NotMatches,
}

/// An operator of a line filter. Patterns match any part of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LineOp {
    /// `|=`
    Contains,
    /// `!=`
    Lacks,
    /// `|~`
    Matches,
    /// `!~`
    NotMatches,
}

/// A stage of a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub enum Stage {
    /// `|= "a" or "b"`: one of the texts has to fit; none may for the negated operators.
    Line {
        /// The operator.
        op: LineOp,
        /// The texts or patterns.
        texts: Vec<String>,
    },
    /// `| json`, or `| json method="request.method"`: the fields to extract, all if none is named.
    Json(Vec<Named>),
    /// `| logfmt`, or `| logfmt method="m"`.
    Logfmt(Vec<Named>),
    /// `| pattern "<ip> - <_>"`.
    Pattern(String),
    /// `| regexp "(?P<method>\\w+)"`.
    Regexp(String),
    /// `| status >= 500`.
    Label(LabelFilter),
    /// `| line_format "{{.path}}"`.
    LineFormat(String),
    /// `| label_format a=b, c="{{.path}}"`.
    LabelFormat(Vec<(String, FormatValue)>),
    /// `| drop a, b="x"`.
    Drop(Vec<Named>),
    /// `| keep a, b="x"`.
    Keep(Vec<Named>),
}

/// A label of a list, maybe with a value: an expression of a parser, or a condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    /// Name of the label.
    pub label: String,
    /// The operator and the value.
    pub value: Option<(MatchOp, String)>,
}

/// A new value of a label.
#[derive(Debug, Clone, PartialEq)]
pub enum FormatValue {
    /// The value of this label, which is removed.
    Rename(String),
    /// A template.
    Template(String),
}

/// A condition on labels.
#[derive(Debug, Clone, PartialEq)]
pub enum LabelFilter {
    /// A text: `method="GET"`.
    Text(Matcher),
    /// A quantity: `status >= 500`.
    Compare {
        /// Name of the label.
        label: String,
        /// The operator.
        op: Comparison,
        /// The value on the right.
        value: FilterValue,
    },
    /// Both hold.
    And(Box<LabelFilter>, Box<LabelFilter>),
    /// One of them holds.
    Or(Box<LabelFilter>, Box<LabelFilter>),
}

/// An operator between quantities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
    /// `<`
    Below,
    /// `<=`
    AtMost,
}

/// A quantity of a label filter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FilterValue {
    /// A number.
    Number(f64),
    /// A duration, nanoseconds.
    Duration(i64),
    /// A size, bytes.
    Bytes(u64),
}

/// `| unwrap duration(took)`: the label whose value is aggregated.
#[derive(Debug, Clone, PartialEq)]
pub struct Unwrap {
    /// Name of the label.
    pub label: String,
    /// The conversion of its text; `None` for plain numbers.
    pub conversion: Option<Conversion>,
    /// Conditions after it, which most often drop errors.
    pub filters: Vec<LabelFilter>,
}

/// A conversion of a text to a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Conversion {
    /// A duration, in seconds.
    Duration,
    /// A size, in bytes.
    Bytes,
}

/// A query for numbers over time.
#[derive(Debug, Clone, PartialEq)]
pub enum Metric {
    /// A constant.
    Number(f64),
    /// `vector(1)`: one series without labels.
    Vector(f64),
    /// An aggregation over windows of time.
    Range(Box<RangeAggregation>),
    /// An aggregation over series.
    Aggregate {
        /// The function.
        function: VectorAggregation,
        /// The number of `topk` and `bottomk`.
        count: Option<u64>,
        /// The labels that remain.
        grouping: Option<LabelGrouping>,
        /// The series.
        of: Box<Metric>,
    },
    /// An operation between two sides.
    Binary {
        /// The operator.
        op: BinaryOp,
        /// A comparison returns 0 and 1 and does not filter.
        is_bool: bool,
        /// The left side.
        left: Box<Metric>,
        /// The right side.
        right: Box<Metric>,
    },
}

/// `rate({…} | unwrap x [5m] offset 1h) by (host)`.
#[derive(Debug, Clone, PartialEq)]
pub struct RangeAggregation {
    /// The function.
    pub function: RangeFunction,
    /// The quantile of `quantile_over_time`.
    pub quantile: Option<f64>,
    /// The lines.
    pub of: LogQuery,
    /// The label whose value is aggregated; `None` for lines.
    pub unwrap: Option<Unwrap>,
    /// Length of the window, nanoseconds.
    pub range_ns: i64,
    /// Time by which the window lies earlier, nanoseconds.
    pub offset_ns: i64,
    /// The labels that remain.
    pub grouping: Option<LabelGrouping>,
}

/// `by (a, b)` or `without (a, b)`.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelGrouping {
    /// The labels are removed and the others remain.
    pub is_without: bool,
    /// Names of labels.
    pub labels: Vec<String>,
}

/// Defines an enum of names, with the text of each.
macro_rules! names {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$doc])* $variant,)+ }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Returns the text in a query.
            pub fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// Returns the one of this text.
            pub(super) fn named(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|each| each.text() == text)
            }
        }
    };
}

names! {
    /// A function over the lines or values of a window.
    RangeFunction {
        /// Lines, or the sum of values, per second.
        Rate = "rate",
        /// Number of lines.
        Count = "count_over_time",
        /// Bytes of lines per second.
        BytesRate = "bytes_rate",
        /// Bytes of lines.
        Bytes = "bytes_over_time",
        /// 1 where a window has no line.
        Absent = "absent_over_time",
        /// Sum of values.
        Sum = "sum_over_time",
        /// Mean of values.
        Avg = "avg_over_time",
        /// Least value.
        Min = "min_over_time",
        /// Greatest value.
        Max = "max_over_time",
        /// Quantile of values, interpolated between two of them.
        Quantile = "quantile_over_time",
        /// Value of the earliest line.
        First = "first_over_time",
        /// Value of the latest line.
        Last = "last_over_time",
    }
}

names! {
    /// A function over series.
    VectorAggregation {
        /// Sum.
        Sum = "sum",
        /// Mean.
        Avg = "avg",
        /// Least value.
        Min = "min",
        /// Greatest value.
        Max = "max",
        /// Number of series.
        Count = "count",
        /// The series with the greatest values.
        TopK = "topk",
        /// The series with the least values.
        BottomK = "bottomk",
    }
}

names! {
    /// An operator between two metric queries.
    BinaryOp {
        /// Sum.
        Add = "+",
        /// Difference.
        Subtract = "-",
        /// Product.
        Multiply = "*",
        /// Quotient.
        Divide = "/",
        /// Remainder.
        Modulo = "%",
        /// Power.
        Power = "^",
        /// Equal.
        Equal = "==",
        /// Not equal.
        NotEqual = "!=",
        /// Greater.
        Above = ">",
        /// Greater or equal.
        AtLeast = ">=",
        /// Less.
        Below = "<",
        /// Less or equal.
        AtMost = "<=",
    }
}

impl BinaryOp {
    /// Returns whether the operator compares.
    pub fn compares(self) -> bool {
        use BinaryOp::{Above, AtLeast, AtMost, Below, Equal, NotEqual};
        matches!(self, Equal | NotEqual | Above | AtLeast | Below | AtMost)
    }

    /// Returns the precedence; a greater one binds more tightly.
    pub(super) fn precedence(self) -> u8 {
        match self {
            Self::Power => 4,
            Self::Multiply | Self::Divide | Self::Modulo => 3,
            Self::Add | Self::Subtract => 2,
            _ => 1,
        }
    }
}

impl RangeFunction {
    /// Returns whether the function needs `| unwrap`; `None` if it works with and without.
    pub(super) fn needs_values(self) -> Option<bool> {
        match self {
            Self::Rate => None,
            Self::Count | Self::BytesRate | Self::Bytes => Some(false),
            Self::Absent => None,
            _ => Some(true),
        }
    }
}
