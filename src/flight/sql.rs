//! The commands of Flight SQL, and the questions that they ask.

mod commands;

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::{FlightDescriptor, FlightEndpoint, FlightInfo, IpcMessage, SchemaAsIpc, Ticket};
use bytes::Bytes;
use query::{Parameters, Prepared, Question, ScalarValue};
use tonic::{Request, Response, Status};

use super::answers::{self, Messages};
use super::dialect::Dialect;
use super::statements::Statements;
use super::{status, values};
use crate::serve::{Client, Serving};

type FlightOutcome<T> = Result<T, Status>;

/// The commands of Flight SQL over a store.
#[derive(Debug)]
pub(super) struct FlightSql {
    serving: Arc<Serving>,
    statements: Statements,
}

impl FlightSql {
    pub(super) fn new(serving: &Arc<Serving>) -> Self {
        Self {
            serving: Arc::clone(serving),
            statements: Statements::default(),
        }
    }

    /// Binds a question to the present tables. Nothing of it runs.
    async fn prepare(
        &self,
        client: &Client,
        dialect: Dialect,
        sql: &str,
    ) -> FlightOutcome<Prepared> {
        let question = Question::Sql(sql.to_owned());
        let prepared = self.serving.prepare(client, dialect.session(), question);
        prepared.await.map_err(|error| status::of_query(&error))
    }

    /// Returns the answer to a question.
    async fn answer(
        &self,
        client: Client,
        dialect: Dialect,
        sql: &str,
        values: Vec<ScalarValue>,
    ) -> FlightOutcome<Response<Messages>> {
        let prepared = self.prepare(&client, dialect, sql).await?;
        let told = described(&prepared, dialect);
        let parameters = match values.is_empty() {
            true => Parameters::None,
            false => Parameters::Typed(values.into()),
        };
        let started = prepared.start(parameters).await;
        let answer = started.map_err(|error| status::of_query(&error))?;
        let columns = told.unwrap_or_else(|| dialect.described(&answer.schema));
        let patience = self.serving.config.server.answer_time_max.0;
        let messages = answers::messages(answer, Arc::new(columns), client, patience);
        Ok(Response::new(messages))
    }
}

/// Returns the columns of the answer to a question; `None` if they depend on its parameters.
fn described(prepared: &Prepared, dialect: Dialect) -> Option<Schema> {
    let is_open = |field: &Arc<Field>| field.data_type().is_null();
    let depends =
        !prepared.parameters().is_empty() && prepared.schema().fields().iter().any(is_open);
    (!depends).then(|| dialect.described(prepared.schema()))
}

/// Returns the parameters of a question: one for each number up to the highest, since values are
/// bound by their places.
///
/// # Errors
/// If one is not `$1`, `$2`, …
fn parameter_fields(prepared: &Prepared) -> FlightOutcome<Vec<Field>> {
    let mut fields = Vec::new();
    for (name, of) in prepared.parameters() {
        let number = name.strip_prefix('$').and_then(|n| n.parse::<usize>().ok());
        let place = number.and_then(|n| n.checked_sub(1));
        let Some(place) = place.filter(|place| *place < values::PARAMETERS_MAX) else {
            let message = format!("the parameter {name} is none of $1, $2, …");
            return Err(status::invalid(
                &message,
                Some("number the parameters from $1"),
            ));
        };
        for place in fields.len()..=place {
            let unused = Field::new(format!("${}", place + 1), DataType::Null, true);
            fields.push(unused);
        }
        if let Some(of) = of {
            fields[place] = Field::new(name, of.clone(), true);
        }
    }
    Ok(fields)
}

/// Returns a schema as an Arrow message.
fn schema_bytes(schema: &Schema) -> FlightOutcome<Bytes> {
    let options = IpcWriteOptions::default();
    let message = IpcMessage::try_from(SchemaAsIpc::new(schema, &options));
    Ok(message.map_err(status::of_arrow)?.0)
}

/// Returns the information of an answer with these columns, which the bytes of the ticket fetch.
fn info(
    descriptor: FlightDescriptor,
    ticket: impl Into<Bytes>,
    schema: Option<&Schema>,
) -> FlightOutcome<Response<FlightInfo>> {
    let endpoint = FlightEndpoint::new().with_ticket(Ticket::new(ticket));
    let mut info = FlightInfo::new()
        .with_endpoint(endpoint)
        .with_descriptor(descriptor);
    if let Some(schema) = schema {
        info = info.try_with_schema(schema).map_err(status::of_arrow)?;
    }
    Ok(Response::new(info))
}

/// Returns the information of an answer that the command itself fetches.
fn info_of_command(
    request: Request<FlightDescriptor>,
    schema: &Schema,
) -> FlightOutcome<Response<FlightInfo>> {
    let descriptor = request.into_inner();
    let ticket = descriptor.cmd.clone();
    info(descriptor, ticket, Some(schema))
}

fn batch(batch: RecordBatch) -> FlightOutcome<Response<Messages>> {
    Ok(Response::new(answers::of_batch(batch)))
}

fn empty(schema: SchemaRef) -> FlightOutcome<Response<Messages>> {
    batch(RecordBatch::new_empty(schema))
}

/// Returns the client of a call.
fn client_of<T>(request: &Request<T>) -> FlightOutcome<Client> {
    let client = request.extensions().get::<Client>().cloned();
    client.ok_or_else(|| Status::internal("a call was not admitted"))
}
