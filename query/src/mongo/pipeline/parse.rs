//! Reads pipelines.

use std::sync::Arc;

use bson::{Bson, Document, doc};

use super::bucket::{bucket, group_of_count};
use super::{FacetStages, UnwindSpec};
use super::{FieldsProjection, GroupSpec, Pipeline, PipelineSink, PipelineStage, STAGES_MAX};
use crate::mongo::error::{QueryError, Result};
use crate::mongo::expression::{Expression, ExpressionScope};
use crate::mongo::filter::Filter;
use crate::mongo::sort::Sort;
use crate::mongo::value::BsonNumber;

/// Reads a pipeline.
pub(super) fn parse_pipeline(stages: &[Document], scope: &ExpressionScope) -> Result<Pipeline> {
    check_count(stages.len())?;
    let mut parsed = Vec::with_capacity(stages.len());
    let mut sink = None;
    for (nth, stage) in stages.iter().enumerate() {
        let (name, spec) = one_field(stage)?;
        match name {
            "$out" | "$merge" if nth + 1 < stages.len() => {
                let message = format!("{name} is not the last stage, where it must be");
                return Err(QueryError::located(40601, message));
            }
            "$out" => sink = Some(PipelineSink::parse_out(spec)?),
            "$merge" => sink = Some(PipelineSink::parse_merge(spec)?),
            "$facet" => parsed.push(facet(spec, scope)?),
            name => add_stage(name, spec, scope, &mut parsed)?,
        }
    }
    // Some stages are read as two.
    check_count(parsed.len())?;
    Ok(Pipeline {
        stages: parsed,
        sink,
    })
}

fn check_count(stages: usize) -> Result<()> {
    if stages <= STAGES_MAX {
        return Ok(());
    }
    let message = format!("a pipeline has more than {STAGES_MAX} stages");
    Err(QueryError::located(7749501, message))
}

fn one_field(stage: &Document) -> Result<(&str, &Bson)> {
    let mut fields = stage.iter();
    match (fields.next(), fields.next()) {
        (Some((name, spec)), None) => Ok((name, spec)),
        _ => {
            let count = stage.len();
            let message = format!("a stage has {count} fields; it needs one, as {{ $limit: 10 }}");
            Err(QueryError::located(40323, message))
        }
    }
}

fn add_stage(
    name: &str,
    spec: &Bson,
    scope: &ExpressionScope,
    into: &mut Vec<PipelineStage>,
) -> Result<()> {
    let stage = match name {
        "$match" => {
            let filter = object(spec, 15959, "$match needs an object of conditions")?;
            PipelineStage::Match(Arc::new(Filter::parse_in(filter, scope)?))
        }
        "$sort" => PipelineStage::Sort(Arc::new(sort(spec)?)),
        "$project" => projection(FieldsProjection::parse_project(spec, scope)?),
        "$addFields" | "$set" => projection(FieldsProjection::parse_addition(name, spec, scope)?),
        "$unset" => projection(FieldsProjection::parse_unset(spec)?),
        "$group" => PipelineStage::Group(Arc::new(GroupSpec::parse(spec, scope)?)),
        "$bucket" => PipelineStage::Group(Arc::new(bucket(spec, scope)?)),
        "$sortByCount" => {
            into.push(PipelineStage::Group(Arc::new(count_of_each(spec, scope)?)));
            PipelineStage::Sort(Arc::new(Sort::parse(&doc! { "count": -1 })?))
        }
        "$unwind" => PipelineStage::Unwind(Arc::new(UnwindSpec::parse(spec)?)),
        "$limit" => match whole("$limit", 5107201, spec)? {
            0 => {
                let message = "the $limit is 0; take at least one document";
                return Err(QueryError::located(15958, message));
            }
            limit => PipelineStage::Limit(limit),
        },
        "$skip" => PipelineStage::Skip(whole("$skip", 5107200, spec)?),
        "$count" => PipelineStage::Count(count_name(spec)?.into()),
        "$replaceRoot" => PipelineStage::ReplaceRoot(Arc::new(replace_root(spec, scope)?)),
        "$replaceWith" => PipelineStage::ReplaceRoot(Arc::new(Expression::parse(spec, scope)?)),
        other => return Err(unknown(other)),
    };
    into.push(stage);
    Ok(())
}

fn projection(projection: FieldsProjection) -> PipelineStage {
    PipelineStage::Project(Arc::new(projection))
}

/// Returns the error of a stage that is not here.
fn unknown(name: &str) -> QueryError {
    let hint = match name {
        "$lookup" | "$graphLookup" | "$unionWith" => {
            "each pipeline reads one stream; SQL has joins and unions"
        }
        "$geoNear" | "$search" | "$searchMeta" | "$vectorSearch" => {
            "streams have no such index; SQL and LogQL search texts"
        }
        "$bucketAuto" => "use $bucket, or $percentile in $group",
        "$sample" => "use $match with a condition on _id, or $limit",
        "$densify" | "$fill" | "$setWindowFields" => "SQL has window functions",
        "$redact" => "use $match and $project",
        "$collStats" | "$indexStats" => "use the command collStats",
        "$changeStream" => "follow the stream instead",
        "$currentOp" | "$listSessions" | "$listLocalSessions" | "$planCacheStats"
        | "$documents" => "it is of a server of MongoDB",
        _ => {
            let message = format!("a pipeline has no stage '{name}'");
            return QueryError::located(40324, message);
        }
    };
    QueryError::not_supported(format!("the stage {name} is not supported: {hint}"))
}

fn object<'a>(spec: &'a Bson, code: i32, message: &str) -> Result<&'a Document> {
    let object = spec.as_document();
    object.ok_or_else(|| QueryError::located(code, message))
}

fn sort(spec: &Bson) -> Result<Sort> {
    let order = object(spec, 15973, "$sort needs an object, as { field: 1 }")?;
    if order.is_empty() {
        let message = "$sort has no field; name one, as { field: 1 }";
        return Err(QueryError::located(15976, message));
    }
    Sort::parse(order)
}

fn whole(stage: &str, code: i32, spec: &Bson) -> Result<u64> {
    let number = BsonNumber::of(spec).and_then(|number| number.to_integer());
    let number = number.and_then(|number| u64::try_from(number).ok());
    number.ok_or_else(|| {
        let message = format!("{stage} needs a whole number from 0 on, but got {spec}");
        QueryError::located(code, message)
    })
}

fn count_name(spec: &Bson) -> Result<&str> {
    let Bson::String(name) = spec else {
        let message = "$count needs the name of its field, as a string";
        return Err(QueryError::located(40156, message));
    };
    let (code, reason) = if name.is_empty() {
        (40157, "is empty")
    } else if name.starts_with('$') {
        (40158, "begins with $")
    } else if name.contains('\0') {
        (40159, "holds a NUL character")
    } else if name.contains('.') {
        (40160, "has a dot")
    } else {
        return Ok(name);
    };
    let message = format!("the field '{name}' of $count {reason}; choose another name");
    Err(QueryError::located(code, message))
}

/// Reads the group that `$sortByCount` sorts.
fn count_of_each(spec: &Bson, scope: &ExpressionScope) -> Result<GroupSpec> {
    let code = match spec {
        Bson::Document(object)
            if object
                .keys()
                .next()
                .is_some_and(|name| name.starts_with('$')) =>
        {
            None
        }
        Bson::Document(_) => Some(40147),
        Bson::String(path) if path.starts_with('$') => None,
        Bson::String(_) => Some(40148),
        _ => Some(40149),
    };
    if let Some(code) = code {
        let message = "$sortByCount needs a path, as \"$field\", or an operator in an object";
        return Err(QueryError::located(code, message));
    }
    group_of_count(Expression::parse(spec, scope)?, None, scope)
}

fn replace_root(spec: &Bson, scope: &ExpressionScope) -> Result<Expression> {
    let spec = object(spec, 40229, "$replaceRoot needs an object with 'newRoot'")?;
    if let Some(other) = spec.keys().find(|name| *name != "newRoot") {
        let message = format!("$replaceRoot has no option '{other}'; it takes 'newRoot'");
        return Err(QueryError::located(40230, message));
    }
    let root = spec.get("newRoot");
    let root = root.ok_or_else(|| QueryError::located(40231, "$replaceRoot needs 'newRoot'"))?;
    Expression::parse(root, scope)
}

fn facet(spec: &Bson, scope: &ExpressionScope) -> Result<PipelineStage> {
    let message = "$facet needs an object with at least one pipeline";
    let spec = object(spec, 40169, message)?;
    if spec.is_empty() {
        return Err(QueryError::located(40169, message));
    }
    let mut facets: FacetStages = Vec::with_capacity(spec.len());
    for (name, stages) in spec {
        if name.starts_with('$') || name.contains('.') || name.contains('\0') || name.is_empty() {
            let message = format!("the facet '{name}' needs a name without $, dots and NULs");
            return Err(QueryError::located(16410, message));
        }
        let Bson::Array(stages) = stages else {
            let message = format!("the facet '{name}' needs an array of stages");
            return Err(QueryError::located(40170, message));
        };
        facets.push((name.clone(), facet_stages(name, stages, scope)?));
    }
    check_count(facets.iter().map(|(_, stages)| stages.len().max(1)).sum())?;
    Ok(PipelineStage::Facet(Arc::new(facets)))
}

fn facet_stages(
    name: &str,
    stages: &[Bson],
    scope: &ExpressionScope,
) -> Result<Vec<PipelineStage>> {
    let mut parsed = Vec::with_capacity(stages.len());
    for stage in stages {
        let message = format!("each stage of the facet '{name}' needs an object");
        let (stage, spec) = one_field(object(stage, 40171, &message)?)?;
        if matches!(stage, "$facet" | "$out" | "$merge") {
            let message = format!("the facet '{name}' has the stage {stage}, which no facet can");
            return Err(QueryError::located(40600, message));
        }
        add_stage(stage, spec, scope, &mut parsed)?;
    }
    Ok(parsed)
}
