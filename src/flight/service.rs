//! The methods of Flight, by the commands of Flight SQL.
//!
//! Most methods are those of `arrow-flight`, which finds the command in a message and calls
//! [`FlightSql`]. It has none for `GetSchema`, so that [`Flights`] stands before it.

use std::sync::Arc;

use arrow_flight::flight_service_server::FlightService;
use arrow_flight::{
    Action, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest, PollInfo,
    SchemaResult, Ticket,
};
use tonic::{Request, Response, Status, Streaming};

use super::sql::FlightSql;
use crate::serve::Serving;

/// The methods of Flight.
#[derive(Debug)]
pub(super) struct Flights(FlightSql);

impl Flights {
    pub(super) fn new(serving: &Arc<Serving>) -> Self {
        Self(FlightSql::new(serving))
    }
}

type FlightReply<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl FlightService for Flights {
    type HandshakeStream = <FlightSql as FlightService>::HandshakeStream;
    type ListFlightsStream = <FlightSql as FlightService>::ListFlightsStream;
    type DoGetStream = <FlightSql as FlightService>::DoGetStream;
    type DoPutStream = <FlightSql as FlightService>::DoPutStream;
    type DoActionStream = <FlightSql as FlightService>::DoActionStream;
    type ListActionsStream = <FlightSql as FlightService>::ListActionsStream;
    type DoExchangeStream = <FlightSql as FlightService>::DoExchangeStream;

    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> FlightReply<Self::HandshakeStream> {
        self.0.handshake(request).await
    }

    async fn list_flights(&self, _: Request<Criteria>) -> FlightReply<Self::ListFlightsStream> {
        Err(Status::unimplemented(
            "this server has no flights to list; it answers the commands of Flight SQL",
        ))
    }

    async fn get_flight_info(&self, request: Request<FlightDescriptor>) -> FlightReply<FlightInfo> {
        self.0.get_flight_info(request).await
    }

    async fn poll_flight_info(&self, request: Request<FlightDescriptor>) -> FlightReply<PollInfo> {
        // A query begins with the call for its answer, so that its information is always complete.
        let info = self.0.get_flight_info(request).await?.into_inner();
        Ok(Response::new(PollInfo::new().with_info(info)))
    }

    async fn get_schema(&self, request: Request<FlightDescriptor>) -> FlightReply<SchemaResult> {
        let info = self.0.get_flight_info(request).await?.into_inner();
        if info.schema.is_empty() {
            return Err(Status::failed_precondition(
                "the columns depend on the types of the parameters; bind values first",
            ));
        }
        let schema = info.schema;
        Ok(Response::new(SchemaResult { schema }))
    }

    async fn do_get(&self, request: Request<Ticket>) -> FlightReply<Self::DoGetStream> {
        self.0.do_get(request).await
    }

    async fn do_put(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> FlightReply<Self::DoPutStream> {
        self.0.do_put(request).await
    }

    async fn do_action(&self, request: Request<Action>) -> FlightReply<Self::DoActionStream> {
        self.0.do_action(request).await
    }

    async fn list_actions(&self, request: Request<Empty>) -> FlightReply<Self::ListActionsStream> {
        self.0.list_actions(request).await
    }

    async fn do_exchange(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> FlightReply<Self::DoExchangeStream> {
        self.0.do_exchange(request).await
    }
}
