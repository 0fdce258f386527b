//! The nearest known name to one that is not known: "did you mean …?".

/// Returns the known name at the least edit distance, if less than half of the name differs.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let close = |known: &'a str| {
        let length = known.chars().count().max(name.chars().count());
        let distance = strsim::damerau_levenshtein(&name.to_lowercase(), known);
        (distance * 2 < length).then_some((distance, known))
    };
    let near = known.into_iter().filter_map(close).min();
    near.map(|(_, known)| known)
}
