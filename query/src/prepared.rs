//! A bound question that is not started. A wire protocol describes it to its client, receives the
//! values of the parameters, and starts it.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use futures::FutureExt;

use crate::answer::rows::Answer;
use crate::error::Result;
use crate::plan::bound::Bound;
use crate::plan::planner::Planner;
use crate::question::Parameters;
use crate::run::admission::Admitted;
use crate::run::memory::Share;

/// A question bound to the tables of its snapshot. It holds the snapshot and a place among the
/// running queries, both at most until its time limit. A session that keeps a statement for later
/// must keep the text and prepare it again.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) planner: Planner,
    pub(crate) admitted: Admitted,
    pub(crate) bound: Bound,
    pub(crate) share: Arc<Share>,
    pub(crate) schema: SchemaRef,
    pub(crate) parameters: BTreeMap<String, Option<DataType>>,
}

impl Prepared {
    /// Returns the columns of the answer. A column that is a parameter has the type null until its
    /// value is known.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the parameters by name (`$1`), each with its type if the question implies one.
    pub fn parameters(&self) -> &BTreeMap<String, Option<DataType>> {
        &self.parameters
    }

    /// Finishes the plan with the values of the parameters, and starts it.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if a parameter has no value, or a value whose type does not fit.
    pub async fn start(self, parameters: Parameters) -> Result<Answer> {
        let Self {
            planner,
            mut admitted,
            bound,
            share,
            ..
        } = self;
        let work = async move {
            let (started, rows) = planner.start(bound, parameters, share).await?;
            Ok((started, Some(rows)))
        };
        let (started, rows) = admitted.run(work.boxed()).await?;
        Ok(Answer::new(admitted, started, rows))
    }
}
