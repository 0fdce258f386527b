//! The description of this server for clients that ask for it (`CommandGetSqlInfo`), and the types
//! that ODBC would ask for, of which there are none.

use std::sync::LazyLock;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{SchemaRef, UInt32Type};
use arrow_flight::sql::metadata::{
    SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfoData, XdbcTypeInfoDataBuilder,
};
use arrow_flight::sql::{
    CommandGetSqlInfo, CommandGetXdbcTypeInfo, SqlInfo, SqlSupportedCaseSensitivity,
    SqlSupportedTransaction,
};
use tonic::Status;

use super::status;

static INFO: LazyLock<SqlInfoData> = LazyLock::new(|| {
    let mut info = SqlInfoDataBuilder::new();
    info.append(SqlInfo::FlightSqlServerName, "Logmill");
    info.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    // The version of Arrow's format that the schemas are written in.
    info.append(SqlInfo::FlightSqlServerArrowVersion, "1.5");
    info.append(SqlInfo::FlightSqlServerReadOnly, true);
    info.append(SqlInfo::FlightSqlServerSql, true);
    info.append(SqlInfo::FlightSqlServerSubstrait, false);
    let none = SqlSupportedTransaction::None as i32;
    info.append(SqlInfo::FlightSqlServerTransaction, none);
    info.append(SqlInfo::FlightSqlServerCancel, false);
    info.append(SqlInfo::FlightSqlServerBulkIngestion, false);
    info.append(SqlInfo::FlightSqlServerStatementTimeout, 0);
    info.append(SqlInfo::FlightSqlServerTransactionTimeout, 0);
    info.append(SqlInfo::SqlDdlCatalog, false);
    info.append(SqlInfo::SqlDdlSchema, false);
    info.append(SqlInfo::SqlDdlTable, false);
    let lower = SqlSupportedCaseSensitivity::SqlCaseSensitivityLowercase as i32;
    info.append(SqlInfo::SqlIdentifierCase, lower);
    info.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    info.append(SqlInfo::SqlAllTablesAreSelectable, true);
    info.build()
        .expect("BUG: these values have types of the format")
});

static TYPES: LazyLock<XdbcTypeInfoData> = LazyLock::new(|| {
    let none = XdbcTypeInfoDataBuilder::new().build();
    none.expect("BUG: an empty table is well formed")
});

/// Returns the schema of the description.
pub(super) fn info_schema() -> SchemaRef {
    INFO.schema()
}

/// Returns the parts of the description that a client asks for.
pub(super) fn info(command: CommandGetSqlInfo) -> Result<RecordBatch, Status> {
    let mut command = command;
    if !command.info.is_empty() {
        // Each name costs a pass over all, so only names that there are, each once, are asked for.
        // An empty list would ask for all.
        let all = INFO.record_batch([]).map_err(of_flight)?;
        let known = all.column(0).as_primitive::<UInt32Type>();
        command.info.retain(|name| known.values().contains(name));
        command.info.sort_unstable();
        command.info.dedup();
        command.info.push(u32::MAX);
    }
    command.into_builder(&INFO).build().map_err(of_flight)
}

/// Returns the schema of the list of types.
pub(super) fn types_schema() -> SchemaRef {
    TYPES.schema()
}

/// Returns the list of types.
pub(super) fn types(command: &CommandGetXdbcTypeInfo) -> Result<RecordBatch, Status> {
    command.into_builder(&TYPES).build().map_err(of_flight)
}

fn of_flight(error: arrow_flight::error::FlightError) -> Status {
    match error {
        arrow_flight::error::FlightError::Arrow(error) => status::of_arrow(error),
        other => other.into(),
    }
}
