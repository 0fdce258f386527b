//! Properties of filters, projections and sorts on arbitrary queries and documents.

use proptest::prelude::*;

use super::*;
use crate::mongo::projection::Projection;
use crate::mongo::sort::{Sort, TopK};

fn name() -> impl Strategy<Value = String> {
    let plain = prop::sample::select(vec!["a", "b", "c", "0", "1", "_id", ""]);
    let path = prop::collection::vec(plain, 1..4).prop_map(|names| names.join("."));
    let operator = prop::sample::select(vec![
        "$eq",
        "$ne",
        "$gt",
        "$lte",
        "$in",
        "$nin",
        "$and",
        "$or",
        "$nor",
        "$not",
        "$exists",
        "$type",
        "$regex",
        "$options",
        "$elemMatch",
        "$size",
        "$all",
        "$mod",
        "$slice",
        "$meta",
    ]);
    prop_oneof![3 => path, 2 => operator.prop_map(str::to_owned)]
}

fn value() -> impl Strategy<Value = Bson> {
    let leaf = prop_oneof![
        Just(Bson::Null),
        Just(Bson::MinKey),
        Just(Bson::MaxKey),
        Just(Bson::Undefined),
        any::<bool>().prop_map(Bson::from),
        (-3..3_i32).prop_map(Bson::from),
        (-3..3_i64).prop_map(Bson::from),
        any::<f64>().prop_map(Bson::from),
        Just(Bson::from(f64::NAN)),
        "[ab(^*]{0,3}".prop_map(Bson::from),
        Just(regex("a")),
    ];
    leaf.prop_recursive(4, 32, 4, |inside| {
        prop_oneof![
            prop::collection::vec(inside.clone(), 0..4).prop_map(Bson::from),
            prop::collection::vec((name(), inside), 0..3)
                .prop_map(|fields| Bson::from(fields.into_iter().collect::<Document>())),
        ]
    })
}

fn document() -> impl Strategy<Value = Document> {
    prop::collection::vec((name(), value()), 0..4).prop_map(|fields| fields.into_iter().collect())
}

/// Returns the filter that a conjunct stands for.
fn filter_of(conjunct: &Conjunct<'_>) -> Document {
    let condition = match conjunct.test {
        ConjunctTest::Eq(value) => doc! { "$eq": value },
        ConjunctTest::Gt(value) => doc! { "$gt": value },
        ConjunctTest::Gte(value) => doc! { "$gte": value },
        ConjunctTest::Lt(value) => doc! { "$lt": value },
        ConjunctTest::Lte(value) => doc! { "$lte": value },
        ConjunctTest::In(values) => doc! { "$in": values.to_vec() },
    };
    doc! { conjunct.path: condition }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(500)
    })]

    #[test]
    fn no_query_panics_and_conjuncts_are_necessary(query in document(), document in document()) {
        if let Ok(filter) = Filter::parse(&query) {
            let is_match = met(&filter, &document);
            let negated = Filter::parse(&doc! { "$nor": [query.clone()] });
            prop_assert_eq!(met(&negated.unwrap(), &document), !is_match);
            for conjunct in filter.conjuncts() {
                let necessary = filter_of(&conjunct);
                prop_assert!(!is_match || matches(&necessary, &document), "{}", necessary);
            }
            let fields = filter.fields().expect("no expression reads all fields");
            let part = document.clone().into_iter();
            let part: Document = part.filter(|(name, _)| fields.contains(name)).collect();
            prop_assert_eq!(met(&filter, &part), is_match, "{:?}", fields);
        }
        if let Ok(projection) = Projection::parse(&query) {
            let found = projection.apply(&document).unwrap();
            prop_assert!(found.len() <= document.len());
        }
        drop(Sort::parse(&query));
    }

    #[test]
    fn a_value_is_equal_to_itself(value in value()) {
        let is_plain = !matches!(value, Bson::Undefined | Bson::RegularExpression(_));
        prop_assume!(is_plain);
        let stored = doc! { "a": value.clone() };
        for condition in [doc! { "$eq": value.clone() }, doc! { "$gte": value.clone() }] {
            let filter = doc! { "a": condition };
            prop_assert!(matches(&filter, &stored));
        }
        let different = doc! { "a": { "$ne": value } };
        prop_assert!(!matches(&different, &stored));
    }

    #[test]
    fn the_first_documents_are_those_of_the_whole_sort(
        documents in prop::collection::vec(document(), 0..12),
        limit in 0..6_usize,
        directions in prop::array::uniform2(prop::sample::select(vec![1, -1])),
    ) {
        let sort = doc! { "a.b": directions[0], "a": directions[1] };
        let first = |limit: Option<usize>| {
            let mut top = TopK::new(Sort::parse(&sort).unwrap(), limit, usize::MAX);
            for document in &documents {
                top.push(document.clone()).unwrap();
            }
            top.finish()
        };
        let mut all = first(None);
        let sorter = Sort::parse(&sort).unwrap();
        let mut stable = documents.clone();
        stable.sort_by_key(|document| sorter.key(document));
        prop_assert_eq!(format!("{all:?}"), format!("{stable:?}"));
        all.truncate(limit);
        prop_assert_eq!(format!("{:?}", first(Some(limit))), format!("{all:?}"));
    }
}
