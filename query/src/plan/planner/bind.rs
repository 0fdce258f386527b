//! The passes from a question to a plan over the tables of its stores.

use std::sync::Arc;

use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;

use super::state::reading;
use super::{Planner, of, planned};
use crate::error::{Error, Fault, Result};
use crate::plan::bound::Bound;
use crate::plan::hints::Hints;
use crate::plan::{datafusion_fixes, dialect, statement};
use crate::postgres::session::{OWNER, StatementSession};
use crate::question::{Question, Session, Sources, Tables};
use crate::run::limits::check_shape;
use crate::stats::QueryInfo;
use crate::tables::catalog::{Catalog, Hidden, PUBLIC, QueryClient};
use crate::tables::sharded::Shards;
use crate::tables::stream::Files;

/// Names that an optimizer generates for one question: fewer than this.
const GENERATED_NAMES: usize = 1_000_000;

impl Planner {
    /// Binds a question to the tables of its snapshot. `queries` is the present list of queries,
    /// for `system.queries`.
    pub(crate) async fn bind(
        &self,
        sources: Sources,
        session: &Session,
        question: Question,
        queries: Vec<QueryInfo>,
    ) -> Result<Bound> {
        let shards = Shards::of(&sources, session.partial, &self.agreed)?.map(Arc::new);
        let tables = (&sources, shards.clone());
        let (sql, parameters) = match question {
            Question::Sql(sql) => (sql, Vec::new()),
            Question::Typed { sql, parameters } => (sql, parameters),
            Question::Plan { build, .. } => {
                let hints = Hints::default();
                let (seq, exact) = (true, true);
                let hidden = Hidden { seq, exact };
                let catalog = self.catalog(tables, session, queries, &hints, hidden)?;
                let (state, is_changed) = self.state_of(session, &catalog);
                // A part of a peer's plan has names that were generated there.
                let names = &state.execution_props().alias_generator;
                names.update_min_id(GENERATED_NAMES);
                let logical = build(Tables(&catalog)).and_then(reading);
                return Ok(Bound {
                    logical: logical.map_err(|e| of(e, &catalog))?,
                    state,
                    is_changed,
                    catalog,
                    top_k: None,
                });
            }
        };
        let hidden = Hidden {
            seq: statement::mentions_seq(&sql),
            exact: statement::mentions_exact(&sql),
        };
        let mut parsed = self.parse(&sql)?;
        let hints = Hints::take(&mut parsed)?;
        hints.check(&sources.snapshot, &session.viewer)?;
        let streams = match &shards {
            Some(shards) => shards.all_streams(),
            None => sources.snapshot.streams(),
        };
        statement::rewrite(&mut parsed, streams, hidden.seq);
        let catalog = self.catalog(tables, session, queries, &hints, hidden)?;
        dialect::rewrite(&mut parsed, &catalog, &session.schema);
        let (state, is_changed) = self.state_of(session, &catalog);
        let logical = planned(&state, &catalog, parsed, &parameters).and_then(reading);
        Ok(Bound {
            logical: logical.map_err(|e| of(e, &catalog))?,
            state,
            is_changed,
            catalog,
            top_k: hints.top_k,
        })
    }

    /// Returns the client of a session, as a catalog needs it.
    fn client(&self, session: &Session) -> QueryClient {
        let values = session.values.clone();
        let user = values.as_ref().map(|values| values.user.clone());
        let user = user.or_else(|| session.viewer.name.clone());
        QueryClient {
            viewer: session.viewer.clone(),
            session: StatementSession {
                user: user.unwrap_or_else(|| OWNER.to_owned()),
                schema: session.schema.clone(),
                values,
                time_zone: session.time_zone.clone(),
                server_started_us: self.started_us,
            },
            public_name: session.public_name.unwrap_or(PUBLIC),
            functions: Arc::clone(&self.functions),
        }
    }

    /// Returns the tables of a question.
    fn catalog(
        &self,
        (sources, shards): (&Sources, Option<Arc<Shards>>),
        session: &Session,
        queries: Vec<QueryInfo>,
        hints: &Hints,
        hidden: Hidden,
    ) -> Result<Arc<Catalog>> {
        let snapshot = Arc::clone(&sources.snapshot);
        let rollups = self.rollups_of(&snapshot)?;
        let indexes = hints.indexes.clone();
        let files = Files {
            indexes: indexes.or_else(|| self.files.indexes.clone()),
            ..self.files.clone()
        };
        Ok(Arc::new(Catalog::new(
            (snapshot, rollups, shards),
            Arc::clone(&sources.system),
            queries,
            files,
            Arc::clone(&self.tiles),
            hidden,
            hints.rollup_use.unwrap_or(self.rollup_use),
            self.client(session),
        )))
    }

    fn parse(&self, sql: &str) -> Result<Statement> {
        check_shape(sql)?;
        let options = &self.state().config_options().sql_parser;
        let limit = options.recursion_limit.get();
        let parsed = DFParserBuilder::new(sql)
            .with_recursion_limit(limit)
            .build()
            .and_then(|mut parser| parser.parse_statements());
        // Some forms of PostgreSQL's clients are those of its dialect alone.
        let parsed = parsed.or_else(|error| {
            let again = DFParserBuilder::new(sql)
                .with_dialect(&PostgreSqlDialect {})
                .with_recursion_limit(limit)
                .build()
                .and_then(|mut parser| parser.parse_statements());
            again.map_err(|_| error)
        });
        let mut statements = parsed.map_err(|e| Error::of(e, Vec::new))?;
        let mut parsed = statements
            .pop_front()
            .ok_or_else(|| Error::of_fault(Fault::Syntax, "the query contains no statement"))?;
        if !statements.is_empty() {
            return Err(Error::of_fault(
                Fault::Syntax,
                "a query is one statement; send the others as separate queries",
            ));
        }
        if !statement::only_reads(&parsed) {
            return Err(Error::of_fault(
                Fault::ReadOnly,
                "only statements that read are allowed: SELECT, EXPLAIN, SHOW",
            ));
        }
        datafusion_fixes::mend(&mut parsed);
        Ok(parsed)
    }
}
