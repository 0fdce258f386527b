//! The nearest known name to one that is not known: "did you mean …?".

use strsim::damerau_levenshtein;

/// Returns the known name at the least edit distance, in any case of letters, if less than half of
/// the longer name differs.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let near = known.into_iter().filter_map(|known| {
        let length = known.chars().count().max(name.chars().count());
        let distance = damerau_levenshtein(&name, &known.to_lowercase());
        (distance * 2 < length).then_some((distance, known))
    });
    near.min().map(|(_, known)| known)
}
