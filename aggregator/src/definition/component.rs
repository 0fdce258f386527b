//! What measures are made of: the states that cells hold, each once per field.

use super::{Measure, MeasureKind, Number};
use crate::calendar::Level;
use crate::state::Layout;

/// One kind of state that cells hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Component {
    /// Number of values, exact sum and, from `range_from`, the extremes.
    Numeric {
        field: Number,
        from: Level,
        range_from: Option<Level>,
    },
    /// Counts by bucket of values; `numeric` is the component with the field's sum and extremes.
    Histogram {
        layout: Layout,
        from: Level,
        numeric: usize,
    },
    /// A set of hashes.
    Distinct { field: String, from: Level },
}

impl Component {
    /// The finest level that has it.
    pub(crate) fn from(&self) -> Level {
        match self {
            Self::Numeric { from, .. }
            | Self::Histogram { from, .. }
            | Self::Distinct { from, .. } => *from,
        }
    }

    /// Whether cells of `level` hold it.
    pub(crate) fn at(&self, level: Level) -> bool {
        level >= self.from()
    }

    /// Whether cells of `level` hold extremes in it.
    pub(crate) fn range_at(&self, level: Level) -> bool {
        matches!(self, Self::Numeric { range_from: Some(from), .. } if level >= *from)
    }
}

/// The components of some measures, each once, entering where the first measure needs it.
pub(super) fn components_of(measures: &[Measure]) -> Vec<Component> {
    let mut components: Vec<Component> = Vec::new();
    let numbers = measures.iter().filter_map(|m| match &m.kind {
        MeasureKind::Sum(f) | MeasureKind::Mean(f) => Some((f, m.from, None)),
        MeasureKind::Min(f) | MeasureKind::Max(f) | MeasureKind::Histogram { field: f, .. } => {
            Some((f, m.from, Some(m.from)))
        }
        MeasureKind::Count | MeasureKind::Distinct { .. } => None,
    });
    for (number, level, range) in numbers {
        let known = components.iter_mut().find_map(|c| match c {
            Component::Numeric {
                field,
                from,
                range_from,
            } if field == number => Some((from, range_from)),
            _ => None,
        });
        match known {
            Some((from, range_from)) => {
                *from = level.min(*from);
                *range_from = match (*range_from, range) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
            }
            None => components.push(Component::Numeric {
                field: number.clone(),
                from: level,
                range_from: range,
            }),
        }
    }
    for measure in measures {
        let level = measure.from;
        match &measure.kind {
            MeasureKind::Histogram {
                field: number,
                layout: wanted,
            } => {
                let base = components
                    .iter()
                    .position(|c| matches!(c, Component::Numeric { field, .. } if field == number))
                    .expect("BUG: numbers come first");
                let known = components.iter_mut().find_map(|c| match c {
                    Component::Histogram {
                        layout,
                        from,
                        numeric,
                    } if layout == wanted && *numeric == base => Some(from),
                    _ => None,
                });
                match known {
                    Some(from) => *from = level.min(*from),
                    None => components.push(Component::Histogram {
                        layout: *wanted,
                        from: level,
                        numeric: base,
                    }),
                }
            }
            MeasureKind::Distinct { field: wanted } => {
                let known = components.iter_mut().find_map(|c| match c {
                    Component::Distinct { field, from } if field == wanted => Some(from),
                    _ => None,
                });
                match known {
                    Some(from) => *from = level.min(*from),
                    None => components.push(Component::Distinct {
                        field: wanted.clone(),
                        from: level,
                    }),
                }
            }
            _ => {}
        }
    }
    components
}
