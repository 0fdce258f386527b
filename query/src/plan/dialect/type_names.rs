//! Names of types that DataFusion does not know: PostgreSQL's own, and those of the standard's
//! catalog.

use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion::common::Result;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::{DataType as SqlType, ExactNumberInfo, ObjectName};

use crate::postgres::types;

/// Binary digits of a `real`.
const REAL_DIGITS: u64 = 24;

/// Plans the types of casts.
#[derive(Debug)]
pub(crate) struct TypeNames;

impl TypePlanner for TypeNames {
    fn plan_type_field(&self, sql_type: &SqlType) -> Result<Option<FieldRef>> {
        let name = match sql_type {
            SqlType::Custom(name, _) => known(name),
            SqlType::Character(_)
            | SqlType::CharacterVarying(_)
            | SqlType::CharVarying(_)
            | SqlType::JSON
            | SqlType::JSONB
            | SqlType::Uuid => Some("text"),
            // A `float` has the digits of a double, unless it says that fewer do.
            SqlType::Float(ExactNumberInfo::None) => Some("float8"),
            SqlType::Float(ExactNumberInfo::Precision(digits)) if *digits > REAL_DIGITS => {
                Some("float8")
            }
            _ => None,
        };
        Ok(name.map(|name| Arc::new(types::field("", name, true))))
    }
}

/// Returns the type of a name in `pg_catalog`, or in no schema.
fn known(name: &ObjectName) -> Option<&'static str> {
    let parts: Vec<String> = name.0.iter().map(part).collect::<Option<_>>()?;
    let last = match parts.as_slice() {
        [last] => last,
        [schema, last] if schema == "pg_catalog" => last,
        [schema, last] if schema == "information_schema" => {
            return match last.as_str() {
                "cardinal_number" => Some("int4"),
                "sql_identifier" | "character_data" | "yes_or_no" => Some("text"),
                _ => None,
            };
        }
        _ => return None,
    };
    match last.as_str() {
        "int2vector" => Some("_int2"),
        "oidvector" => Some("_oid"),
        "regproc" | "regprocedure" => Some("oid"),
        "timestamp" => None,
        other => types::by_name(other).map(|row| row.name),
    }
}

fn part(part: &datafusion::sql::sqlparser::ast::ObjectNamePart) -> Option<String> {
    let ident = part.as_ident()?;
    Some(match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    })
}
