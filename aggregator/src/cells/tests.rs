use super::*;
use crate::testing::default_definitions;

#[test]
fn a_projection_names_only_what_its_columns_need() {
    let stats = &default_definitions()[0];
    let of =
        |level, names: &[&str]| Projection::of_columns(stats, level, names).map(|p| p.components);
    assert_eq!(
        of(Level::Minute, &["bucket", "path", "hits"]).expect("columns"),
        [false, false, false]
    );
    assert_eq!(
        of(Level::Minute, &["bytes"]).expect("columns"),
        [true, false, false]
    );
    // Mean and max of a histogram come from its numbers, not from its bucket counts.
    assert_eq!(
        of(Level::Hour, &["size_mean", "size_max"]).expect("columns"),
        [true, false, false]
    );
    assert_eq!(
        of(Level::Hour, &["size_p99"]).expect("columns"),
        [true, true, false]
    );
    assert_eq!(
        of(Level::Hour, &["size"]).expect("columns"),
        [true, true, false]
    );
    assert_eq!(
        of(Level::Year, &["visitors"]).expect("columns"),
        [false, false, true]
    );
}

#[test]
fn asking_below_the_entry_level_says_which_level_has_it() {
    let stats = &default_definitions()[0];
    let error = Projection::of_columns(stats, Level::Minute, &["size_p99"])
        .expect_err("too fine")
        .to_string();
    assert!(error.contains("stats.hourly"), "{error}");
    assert!(Projection::of_columns(stats, Level::Hour, &["size_p98"]).is_err());
}
