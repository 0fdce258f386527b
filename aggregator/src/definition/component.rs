//! Components of measures: the states that cells hold, each once per field and filter.

use std::fmt;

use super::measure::{Measure, MeasureKind, Number};
use crate::calendar::Level;
use crate::expression::Condition;
use crate::state::Layout;

/// One kind of state that cells hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Component {
    /// Number of events that pass a filter; without one it is the cell's own count.
    Count { filter: Condition, from: Level },
    /// Number of values, exact sum and, from `range_from`, the extremes.
    Numeric {
        field: Number,
        filter: Option<Condition>,
        from: Level,
        range_from: Option<Level>,
    },
    /// Exact sum of the squares; `numeric` is the component with the field's number and sum.
    Squares { from: Level, numeric: usize },
    /// Counts by bucket of values; `numeric` is the component with the field's sum and extremes.
    Histogram {
        layout: Layout,
        from: Level,
        numeric: usize,
    },
    /// A set of hashes.
    Distinct {
        field: String,
        filter: Option<Condition>,
        from: Level,
    },
}

impl fmt::Display for Component {
    /// Writes a name of the state, for reports of sizes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count { .. } => f.write_str("count"),
            Self::Numeric { field, .. } => write!(f, "sum({})", field.field),
            Self::Squares { .. } => f.write_str("squares"),
            Self::Histogram { .. } => f.write_str("histogram"),
            Self::Distinct { field, .. } => write!(f, "distinct({field})"),
        }
    }
}

impl Component {
    /// Returns the finest level that has the component.
    pub(crate) fn from(&self) -> Level {
        match self {
            Self::Count { from, .. }
            | Self::Numeric { from, .. }
            | Self::Squares { from, .. }
            | Self::Histogram { from, .. }
            | Self::Distinct { from, .. } => *from,
        }
    }

    /// Checks whether cells of `level` hold the component.
    pub(crate) fn at(&self, level: Level) -> bool {
        level >= self.from()
    }

    /// Checks whether cells of `level` hold the component's extremes.
    pub(crate) fn range_at(&self, level: Level) -> bool {
        matches!(self, Self::Numeric { range_from: Some(from), .. } if level >= *from)
    }

    /// Returns the index of the numeric component that reads of this one need.
    pub(crate) fn numeric(&self) -> Option<usize> {
        match self {
            Self::Squares { numeric, .. } | Self::Histogram { numeric, .. } => Some(*numeric),
            _ => None,
        }
    }

    /// Checks whether both are the same state, apart from the levels at which they enter.
    fn is_same(&self, other: &Self) -> bool {
        let mut twin = other.clone();
        twin.enter(self);
        let mut own = self.clone();
        own.enter(other);
        own == twin
    }

    /// Enters at the level of `other` if it is finer; likewise for the extremes.
    fn enter(&mut self, other: &Self) {
        match self {
            Self::Count { from, .. }
            | Self::Numeric { from, .. }
            | Self::Squares { from, .. }
            | Self::Histogram { from, .. }
            | Self::Distinct { from, .. } => *from = other.from().min(*from),
        }
        if let Self::Numeric {
            range_from: mine, ..
        } = self
            && let Self::Numeric {
                range_from: theirs, ..
            } = other
        {
            *mine = match (*mine, *theirs) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
    }
}

/// Returns the components of measures, each once and from the finest level at which a measure needs
/// it. Numeric components come first.
pub(super) fn components_of(measures: &[Measure]) -> Vec<Component> {
    let mut components = Vec::new();
    for numbers in measures.iter().filter_map(numbers_of) {
        add(&mut components, numbers);
    }
    for measure in measures {
        let numeric = numbers_of(measure).map(|numbers| index_of(&components, &numbers));
        if let Some(own) = own_of(measure, numeric) {
            add(&mut components, own);
        }
    }
    components
}

/// Returns the indices of a measure's components: its numbers, then the component of its own.
pub(super) fn of_measure(components: &[Component], measure: &Measure) -> Vec<usize> {
    let numeric = numbers_of(measure).map(|numbers| index_of(components, &numbers));
    let own = own_of(measure, numeric).map(|own| index_of(components, &own));
    numeric.into_iter().chain(own).collect()
}

fn numbers_of(measure: &Measure) -> Option<Component> {
    let with_range = matches!(
        measure.kind,
        MeasureKind::Min(_) | MeasureKind::Max(_) | MeasureKind::Histogram { .. }
    );
    Some(Component::Numeric {
        field: measure.number()?.clone(),
        filter: measure.filter.clone(),
        from: measure.from,
        range_from: with_range.then_some(measure.from),
    })
}

/// Returns the component that a measure needs besides its numbers.
fn own_of(measure: &Measure, numeric: Option<usize>) -> Option<Component> {
    let (from, filter) = (measure.from, measure.filter.clone());
    match &measure.kind {
        MeasureKind::Count => filter.map(|filter| Component::Count { filter, from }),
        MeasureKind::Variance(_) => Some(Component::Squares {
            from,
            numeric: numeric?,
        }),
        MeasureKind::Histogram { layout, .. } => Some(Component::Histogram {
            layout: *layout,
            from,
            numeric: numeric?,
        }),
        MeasureKind::Distinct { field } => Some(Component::Distinct {
            field: field.clone(),
            filter,
            from,
        }),
        _ => None,
    }
}

fn add(components: &mut Vec<Component>, added: Component) {
    match components.iter_mut().find(|c| c.is_same(&added)) {
        Some(existing) => existing.enter(&added),
        None => components.push(added),
    }
}

fn index_of(components: &[Component], component: &Component) -> usize {
    let index = components.iter().position(|c| c.is_same(component));
    index.expect("BUG: every measure has its components")
}
