//! The method of each command.

use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::server::{DoPutError, FlightSqlService, PeekableFlightDataStream};
use arrow_flight::sql::{
    ActionBeginTransactionRequest, ActionBeginTransactionResult,
    ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest,
    ActionCreatePreparedStatementResult, ActionCreatePreparedSubstraitPlanRequest,
    CommandGetCatalogs, CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys,
    CommandGetImportedKeys, CommandGetPrimaryKeys, CommandGetSqlInfo, CommandGetTableTypes,
    CommandGetTables, CommandGetXdbcTypeInfo, CommandPreparedStatementQuery,
    CommandPreparedStatementUpdate, CommandStatementIngest, CommandStatementQuery,
    CommandStatementSubstraitPlan, CommandStatementUpdate, DoPutPreparedStatementResult, SqlInfo,
    TicketStatementQuery,
};
use arrow_flight::{
    Action, FlightDescriptor, FlightInfo, HandshakeRequest, HandshakeResponse, Ticket,
};
use axum::http::header::AUTHORIZATION;
use futures::stream;
use secrecy::{ExposeSecret, SecretString};
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Status, Streaming};

use super::{
    FlightOutcome, FlightSql, Messages, batch, client_of, described, empty, info, info_of_command,
    parameter_fields, schema_bytes,
};
use crate::flight::dialect::Dialect;
use crate::flight::protobuf::any_bytes;
use crate::flight::{catalog, sql_info, status, values};

/// The bearer of a store that asks for no login.
const OPEN: &str = "open";
/// The action by which a client ends its session.
const CLOSE_SESSION: &str = "CloseSession";
/// The result of this action: its field `status` says `CLOSED` (`Flight.proto`).
const SESSION_CLOSED: [u8; 2] = [0x08, 0x01];

type Info = FlightOutcome<Response<FlightInfo>>;
type Got = FlightOutcome<Response<Messages>>;
type Descriptor = Request<FlightDescriptor>;
type Put = Request<PeekableFlightDataStream>;

#[tonic::async_trait]
impl FlightSqlService for FlightSql {
    type FlightService = Self;

    /// Begins a session of the credentials that the call carries, and returns it as a bearer.
    async fn do_handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> FlightOutcome<Response<<Self as FlightService>::HandshakeStream>> {
        let client = client_of(&request)?;
        let session = self.serving.access.begin_session(&client);
        let bearer = session.unwrap_or_else(|| SecretString::from(OPEN));
        let answer = HandshakeResponse {
            protocol_version: 0,
            payload: bearer.expose_secret().as_bytes().to_vec().into(),
        };
        let answers: <Self as FlightService>::HandshakeStream =
            Box::pin(stream::iter([Ok(answer)]));
        let mut response = Response::new(answers);
        let value = MetadataValue::try_from(format!("Bearer {}", bearer.expose_secret()));
        let value = value.map_err(|_| Status::internal("a session is no header"))?;
        let headers = response.metadata_mut();
        headers.insert(AUTHORIZATION.as_str(), value);
        Ok(response)
    }

    async fn get_flight_info_statement(
        &self,
        command: CommandStatementQuery,
        request: Descriptor,
    ) -> Info {
        let (client, dialect) = (client_of(&request)?, Dialect::of_call(&request));
        check_no_transaction(command.transaction_id.as_deref())?;
        let schema = described(
            &self.prepare(&client, dialect, &command.query).await?,
            dialect,
        );
        let ticket = any_bytes(&TicketStatementQuery {
            statement_handle: command.query.into_bytes().into(),
        });
        info(request.into_inner(), ticket, schema.as_ref())
    }

    async fn do_get_statement(
        &self,
        ticket: TicketStatementQuery,
        request: Request<Ticket>,
    ) -> Got {
        let (client, dialect) = (client_of(&request)?, Dialect::of_call(&request));
        let sql = std::str::from_utf8(&ticket.statement_handle);
        let sql = sql.map_err(|_| status::invalid("the ticket is not from this server", None))?;
        self.answer(client, dialect, sql, Vec::new()).await
    }

    async fn do_action_create_prepared_statement(
        &self,
        command: ActionCreatePreparedStatementRequest,
        request: Request<Action>,
    ) -> FlightOutcome<ActionCreatePreparedStatementResult> {
        let (client, dialect) = (client_of(&request)?, Dialect::of_call(&request));
        check_no_transaction(command.transaction_id.as_deref())?;
        let prepared = self.prepare(&client, dialect, &command.query).await?;
        let parameters = arrow::datatypes::Schema::new(parameter_fields(&prepared)?);
        let dataset_schema = match described(&prepared, dialect) {
            Some(schema) => schema_bytes(&schema)?,
            None => bytes::Bytes::new(),
        };
        let handle = self.statements.add(&client, &command.query)?;
        Ok(ActionCreatePreparedStatementResult {
            prepared_statement_handle: handle.into(),
            dataset_schema,
            parameter_schema: schema_bytes(&parameters)?,
        })
    }

    async fn do_put_prepared_statement_query(
        &self,
        command: CommandPreparedStatementQuery,
        request: Put,
    ) -> FlightOutcome<DoPutPreparedStatementResult> {
        let client = client_of(&request)?;
        let handle = command.prepared_statement_handle;
        // An unknown handle is refused before its values are read.
        self.statements.get(&client, &handle)?;
        let values = values::read(request.into_inner()).await?;
        self.statements.bind(&client, &handle, values)?;
        Ok(DoPutPreparedStatementResult {
            prepared_statement_handle: Some(handle),
        })
    }

    async fn get_flight_info_prepared_statement(
        &self,
        command: CommandPreparedStatementQuery,
        request: Descriptor,
    ) -> Info {
        let (client, dialect) = (client_of(&request)?, Dialect::of_call(&request));
        let handle = &command.prepared_statement_handle;
        let (sql, _) = self.statements.get(&client, handle)?;
        let schema = described(&self.prepare(&client, dialect, &sql).await?, dialect);
        let descriptor = request.into_inner();
        let ticket = descriptor.cmd.clone();
        info(descriptor, ticket, schema.as_ref())
    }

    async fn do_get_prepared_statement(
        &self,
        command: CommandPreparedStatementQuery,
        request: Request<Ticket>,
    ) -> Got {
        let (client, dialect) = (client_of(&request)?, Dialect::of_call(&request));
        let handle = &command.prepared_statement_handle;
        let (sql, values) = self.statements.get(&client, handle)?;
        self.answer(client, dialect, &sql, values).await
    }

    async fn do_action_close_prepared_statement(
        &self,
        command: ActionClosePreparedStatementRequest,
        request: Request<Action>,
    ) -> FlightOutcome<()> {
        let client = client_of(&request)?;
        self.statements
            .close(&client, &command.prepared_statement_handle);
        Ok(())
    }

    async fn get_flight_info_catalogs(
        &self,
        command: CommandGetCatalogs,
        request: Descriptor,
    ) -> Info {
        info_of_command(request, &command.into_builder().schema())
    }

    async fn do_get_catalogs(&self, command: CommandGetCatalogs, _: Request<Ticket>) -> Got {
        batch(catalog::catalogs(command)?)
    }

    async fn get_flight_info_schemas(
        &self,
        command: CommandGetDbSchemas,
        request: Descriptor,
    ) -> Info {
        info_of_command(request, &command.into_builder().schema())
    }

    async fn do_get_schemas(&self, command: CommandGetDbSchemas, request: Request<Ticket>) -> Got {
        let client = client_of(&request)?;
        batch(catalog::schemas(&self.serving, &client, command).await?)
    }

    async fn get_flight_info_tables(&self, command: CommandGetTables, request: Descriptor) -> Info {
        info_of_command(request, &command.into_builder().schema())
    }

    async fn do_get_tables(&self, command: CommandGetTables, request: Request<Ticket>) -> Got {
        let client = client_of(&request)?;
        batch(catalog::tables(&self.serving, &client, command).await?)
    }

    async fn get_flight_info_table_types(
        &self,
        command: CommandGetTableTypes,
        request: Descriptor,
    ) -> Info {
        info_of_command(request, &command.into_builder().schema())
    }

    async fn do_get_table_types(&self, command: CommandGetTableTypes, _: Request<Ticket>) -> Got {
        batch(catalog::table_types(command)?)
    }

    async fn get_flight_info_sql_info(&self, _: CommandGetSqlInfo, request: Descriptor) -> Info {
        info_of_command(request, &sql_info::info_schema())
    }

    async fn do_get_sql_info(&self, command: CommandGetSqlInfo, _: Request<Ticket>) -> Got {
        batch(sql_info::info(command)?)
    }

    async fn get_flight_info_xdbc_type_info(
        &self,
        _: CommandGetXdbcTypeInfo,
        request: Descriptor,
    ) -> Info {
        info_of_command(request, &sql_info::types_schema())
    }

    async fn do_get_xdbc_type_info(
        &self,
        command: CommandGetXdbcTypeInfo,
        _: Request<Ticket>,
    ) -> Got {
        batch(sql_info::types(&command)?)
    }

    async fn get_flight_info_primary_keys(
        &self,
        _: CommandGetPrimaryKeys,
        request: Descriptor,
    ) -> Info {
        info_of_command(request, &catalog::primary_keys())
    }

    async fn do_get_primary_keys(&self, _: CommandGetPrimaryKeys, _: Request<Ticket>) -> Got {
        empty(catalog::primary_keys())
    }

    async fn get_flight_info_exported_keys(
        &self,
        _: CommandGetExportedKeys,
        request: Descriptor,
    ) -> Info {
        info_of_command(request, &catalog::foreign_keys())
    }

    async fn do_get_exported_keys(&self, _: CommandGetExportedKeys, _: Request<Ticket>) -> Got {
        empty(catalog::foreign_keys())
    }

    async fn get_flight_info_imported_keys(
        &self,
        _: CommandGetImportedKeys,
        request: Descriptor,
    ) -> Info {
        info_of_command(request, &catalog::foreign_keys())
    }

    async fn do_get_imported_keys(&self, _: CommandGetImportedKeys, _: Request<Ticket>) -> Got {
        empty(catalog::foreign_keys())
    }

    async fn get_flight_info_cross_reference(
        &self,
        _: CommandGetCrossReference,
        request: Descriptor,
    ) -> Info {
        info_of_command(request, &catalog::foreign_keys())
    }

    async fn do_get_cross_reference(&self, _: CommandGetCrossReference, _: Request<Ticket>) -> Got {
        empty(catalog::foreign_keys())
    }

    async fn do_action_fallback(
        &self,
        request: Request<Action>,
    ) -> FlightOutcome<Response<<Self as FlightService>::DoActionStream>> {
        let kind = &request.get_ref().r#type;
        if kind != CLOSE_SESSION {
            let message = format!("the action {kind:?} is not supported");
            return Err(Status::unimplemented(message));
        }
        let bearer = request.metadata().get(AUTHORIZATION.as_str());
        let bearer = bearer.and_then(|value| value.to_str().ok()?.split_once(' '));
        if let Some((_, session)) = bearer {
            self.serving
                .access
                .end_session(&SecretString::from(session));
        }
        let closed = arrow_flight::Result::new(SESSION_CLOSED.to_vec());
        let closed: <Self as FlightService>::DoActionStream = Box::pin(stream::iter([Ok(closed)]));
        Ok(Response::new(closed))
    }

    async fn do_put_statement_update(
        &self,
        _: CommandStatementUpdate,
        _: Put,
    ) -> FlightOutcome<i64> {
        Err(status::read_only())
    }

    async fn do_put_statement_ingest(
        &self,
        _: CommandStatementIngest,
        _: Put,
    ) -> FlightOutcome<i64> {
        Err(status::read_only())
    }

    async fn do_put_prepared_statement_update(
        &self,
        _: CommandPreparedStatementUpdate,
        _: Put,
    ) -> FlightOutcome<i64> {
        Err(status::read_only())
    }

    async fn do_put_error_callback(
        &self,
        _: Put,
        error: DoPutError,
    ) -> FlightOutcome<Response<<Self as FlightService>::DoPutStream>> {
        Err(status::invalid(
            &format!("the upload begins wrongly: {error}"),
            None,
        ))
    }

    async fn do_action_begin_transaction(
        &self,
        _: ActionBeginTransactionRequest,
        _: Request<Action>,
    ) -> FlightOutcome<ActionBeginTransactionResult> {
        Err(Status::unimplemented(NO_TRANSACTIONS))
    }

    async fn get_flight_info_substrait_plan(
        &self,
        _: CommandStatementSubstraitPlan,
        _: Descriptor,
    ) -> Info {
        Err(Status::unimplemented(NO_SUBSTRAIT))
    }

    async fn do_action_create_prepared_substrait_plan(
        &self,
        _: ActionCreatePreparedSubstraitPlanRequest,
        _: Request<Action>,
    ) -> FlightOutcome<ActionCreatePreparedStatementResult> {
        Err(Status::unimplemented(NO_SUBSTRAIT))
    }

    /// The description is the same for the life of the program.
    async fn register_sql_info(&self, _: i32, _: &SqlInfo) {}
}

const NO_SUBSTRAIT: &str = "Substrait plans are not supported; send SQL";
const NO_TRANSACTIONS: &str =
    "there are no transactions: each query reads one state of the store; turn autocommit on";

/// Checks that a statement is in no transaction.
fn check_no_transaction(transaction: Option<&[u8]>) -> FlightOutcome<()> {
    match transaction {
        None | Some([]) => Ok(()),
        Some(_) => Err(status::invalid(
            "there is no such transaction",
            Some(NO_TRANSACTIONS),
        )),
    }
}
