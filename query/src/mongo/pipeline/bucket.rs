//! `$bucket`, as the group that it stands for.

use bson::{Bson, doc};

use super::group::{BucketBounds, GroupSpec, accumulators};
use crate::mongo::error::{QueryError, Result};
use crate::mongo::expression::{Expression, ExpressionScope};
use crate::mongo::value::{compare, type_rank};

/// Returns a group whose only field is the count of its documents.
pub(super) fn group_of_count(
    by: Expression,
    buckets: Option<BucketBounds>,
    scope: &ExpressionScope,
) -> Result<GroupSpec> {
    let fields = accumulators(&doc! { "count": { "$sum": 1 } }, scope)?;
    Ok(GroupSpec {
        by,
        buckets,
        fields,
    })
}

/// Reads `$bucket`.
pub(super) fn bucket(spec: &Bson, scope: &ExpressionScope) -> Result<GroupSpec> {
    let Bson::Document(spec) = spec else {
        let message = "$bucket needs an object of 'groupBy' and 'boundaries'";
        return Err(QueryError::located(40201, message));
    };
    let known = ["groupBy", "boundaries", "default", "output"];
    if let Some(other) = spec.keys().find(|name| !known.contains(&name.as_str())) {
        let message = format!(
            "$bucket has no option '{other}'; it takes {}",
            known.join(", ")
        );
        return Err(QueryError::located(40197, message));
    }
    let (Some(by), Some(boundaries)) = (spec.get("groupBy"), spec.get("boundaries")) else {
        let message = "$bucket needs both 'groupBy' and 'boundaries'";
        return Err(QueryError::located(40198, message));
    };
    let by = group_by(by, scope)?;
    let boundaries = boundaries_of(boundaries, scope)?;
    let default = spec.get("default");
    let default = default.map(|default| constant(default, 40195, "'default'", scope));
    let default = default.transpose()?;
    let (first, last) = (&boundaries[0], &boundaries[boundaries.len() - 1]);
    if let Some(default) = &default
        && compare(default, first).is_ge()
        && compare(default, last).is_lt()
    {
        let message = format!("the 'default' {default} of $bucket lies within a bucket");
        return Err(QueryError::located(40199, message));
    }
    let buckets = Some(BucketBounds {
        boundaries,
        default,
    });
    match spec.get("output") {
        None => group_of_count(by, buckets, scope),
        Some(Bson::Document(output)) => Ok(GroupSpec {
            by,
            buckets,
            fields: accumulators(output, scope)?,
        }),
        Some(_) => {
            let message = "the 'output' of $bucket needs an object of accumulators";
            Err(QueryError::located(40196, message))
        }
    }
}

/// Reads the value by which documents are put into buckets.
fn group_by(by: &Bson, scope: &ExpressionScope) -> Result<Expression> {
    let is_varying = match by {
        Bson::Document(object) => object
            .keys()
            .next()
            .is_some_and(|name| name.starts_with('$')),
        Bson::String(path) => path.starts_with('$'),
        _ => false,
    };
    match is_varying {
        true => Expression::parse(by, scope),
        false => {
            let message = "the 'groupBy' of $bucket needs a path, as \"$field\", or an operator";
            Err(QueryError::located(40202, message))
        }
    }
}

/// Returns the value of an expression that needs no document.
fn constant(value: &Bson, code: i32, option: &str, scope: &ExpressionScope) -> Result<Bson> {
    let constant = Expression::parse(value, scope)?.constant(scope)?;
    constant.ok_or_else(|| {
        let message = format!("the {option} of $bucket needs constants, but got {value}");
        QueryError::located(code, message)
    })
}

fn boundaries_of(boundaries: &Bson, scope: &ExpressionScope) -> Result<Vec<Bson>> {
    let Bson::Array(given) = boundaries else {
        let message = "the 'boundaries' of $bucket need an array";
        return Err(QueryError::located(40200, message));
    };
    if given.len() < 2 {
        let count = given.len();
        let message = format!("the 'boundaries' of $bucket have {count} values; give two or more");
        return Err(QueryError::located(40192, message));
    }
    let values = given.iter();
    let values = values.map(|value| constant(value, 40191, "'boundaries'", scope));
    let boundaries: Vec<Bson> = values.collect::<Result<_>>()?;
    for pair in boundaries.windows(2) {
        if type_rank(&pair[0]) != type_rank(&pair[1]) {
            let message = format!(
                "the 'boundaries' {} and {} of $bucket are of different types",
                pair[0], pair[1]
            );
            return Err(QueryError::located(40193, message));
        }
        if compare(&pair[0], &pair[1]).is_ge() {
            let message = format!(
                "the 'boundaries' {} and {} of $bucket do not ascend",
                pair[0], pair[1]
            );
            return Err(QueryError::located(40194, message));
        }
    }
    Ok(boundaries)
}
