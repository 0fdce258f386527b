//! Random expressions over random values: none panics, and none makes a value out of bounds.

use bson::{Bson, DateTime, Document, doc, oid::ObjectId};
use proptest::prelude::*;

use super::evaluate;
use crate::mongo::expression::catalog::operators;
use crate::mongo::expression::operator::{ArgumentForm, ExpressionOperator};
use crate::mongo::size::weigh;

fn value() -> impl Strategy<Value = Bson> {
    let leaf = prop_oneof![
        Just(Bson::Null),
        any::<bool>().prop_map(Bson::from),
        any::<i32>().prop_map(Bson::from),
        (-5..5).prop_map(Bson::from),
        any::<i64>().prop_map(Bson::from),
        any::<f64>().prop_map(Bson::from),
        any::<i64>().prop_map(|millis| Bson::DateTime(DateTime::from_millis(millis))),
        any::<[u8; 12]>().prop_map(|bytes| Bson::ObjectId(ObjectId::from_bytes(bytes))),
        "[a-zé日 0-9.:TZ+-]{0,12}".prop_map(Bson::from),
        prop::sample::select(vec![
            "$a",
            "$b",
            "$a.b",
            "$missing",
            "$$ROOT",
            "$$this",
            "$$NOW",
            "day",
            "month",
            "%Y%z",
            "UTC",
            "+05:30",
            "Europe/Berlin",
            "int",
            "2020-02-30T10:00:00Z",
            "NaN",
            "1E6000",
        ])
        .prop_map(Bson::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Bson::from),
            prop::collection::vec(("[a-c]", inner), 0..3)
                .prop_map(|fields| Bson::from(Document::from_iter(fields))),
        ]
    })
}

fn call(arguments: Vec<Bson>, pick: prop::sample::Index) -> Bson {
    let operators: Vec<&ExpressionOperator> = operators().collect();
    let operator = operators[pick.index(operators.len())];
    let argument = match operator.form {
        ArgumentForm::Names(necessary, optional) | ArgumentForm::Fallback(necessary, optional) => {
            let names = necessary.iter().chain(optional);
            let fields = names
                .zip(arguments)
                .map(|(name, value)| ((*name).to_owned(), value));
            Bson::from(Document::from_iter(fields))
        }
        ArgumentForm::List(least, most) => {
            let count = arguments.len().clamp(least, most);
            let arguments = arguments.into_iter().cycle().take(count);
            Bson::Array(arguments.collect())
        }
        ArgumentForm::DatePart | ArgumentForm::FieldName => {
            arguments.into_iter().next().unwrap_or(Bson::Null)
        }
    };
    Bson::from(doc! { operator.name: argument })
}

/// Returns the arguments of some calls, and what picks their operators.
fn calls() -> impl Strategy<Value = Vec<(Vec<Bson>, prop::sample::Index)>> {
    let arguments = prop::collection::vec(value(), 1..6);
    prop::collection::vec((arguments, any::<prop::sample::Index>()), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_expression_panics(
        inner in calls(),
        pick in any::<prop::sample::Index>(),
        a in value(),
        b in value(),
    ) {
        let arguments = inner.into_iter().map(|(arguments, pick)| call(arguments, pick));
        let expression = call(arguments.collect(), pick);
        let document = doc! { "a": a, "b": b };
        if let Ok(Some(value)) = evaluate(&expression, &document) {
            prop_assert!(weigh(&value).is_ok());
        }
    }

    #[test]
    fn no_operator_panics(
        arguments in prop::collection::vec(value(), 1..6),
        pick in any::<prop::sample::Index>(),
        a in value(),
        b in value(),
    ) {
        let document = doc! { "a": a, "b": b };
        let _ = evaluate(&call(arguments, pick), &document);
    }
}
