//! The cells of a level that peers have.

use std::fmt;
use std::sync::{Arc, OnceLock};

use aggregator::{Cells, Definition, Filter, Level, Projection, TileFile};
use bytes::Bytes;
use datafusion::common::{DataFusionError, Result};
use futures::StreamExt;
use storage::TileImage;
use tokio::runtime::Handle;

use super::frame::{Frame, Frames, cut_off};
use super::peer::Peer;
use super::request::Request;
use crate::error::Error;

/// The cells of one level that peers have, read once for all parts of a scan.
pub(crate) struct PeerCells {
    peers: Vec<Arc<dyn Peer>>,
    definition: Arc<Definition>,
    level: Level,
    columns: Vec<String>,
    filter: Filter,
    read: OnceLock<std::result::Result<Vec<Cells>, Arc<DataFusionError>>>,
}

impl fmt::Debug for PeerCells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerCells")
            .field("peers", &self.peers)
            .finish_non_exhaustive()
    }
}

impl PeerCells {
    /// Creates the cells of a level that pass a filter, with the states of some columns. Nothing is
    /// read yet.
    pub(crate) fn new(
        peers: Vec<Arc<dyn Peer>>,
        definition: Arc<Definition>,
        level: Level,
        columns: Vec<String>,
        filter: Filter,
    ) -> Self {
        Self {
            peers,
            definition,
            level,
            columns,
            filter,
            read: OnceLock::new(),
        }
    }

    /// Returns whether no peer is asked.
    pub(crate) fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    /// Returns the addresses of the peers.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.peers.iter().map(|peer| peer.name())
    }

    /// Returns the cells. Blocks until the peers have sent them: not to be
    /// called where a thread may not block.
    ///
    /// # Errors
    /// The errors of [`Peer::send`] and those that the peers tell.
    pub(crate) fn read(&self) -> Result<&[Cells]> {
        if self.peers.is_empty() {
            return Ok(&[]);
        }
        let read = self.read.get_or_init(|| {
            let sent =
                futures::future::try_join_all(self.peers.iter().map(|peer| self.of(&**peer)));
            let all = Handle::current().block_on(sent).map_err(Arc::new)?;
            Ok(all.into_iter().flatten().collect())
        });
        read.as_deref()
            .map_err(|error| DataFusionError::Shared(Arc::clone(error)))
    }

    async fn of(&self, peer: &dyn Peer) -> Result<Vec<Cells>> {
        let request = Request::Cells {
            rollup: self.definition.name().to_string(),
            level: self.level,
            columns: self.columns.clone(),
            filter: self.filter.clone(),
        };
        let mut bytes = peer.send(request.encode()?).await?;
        let (mut frames, mut cells) = (Frames::default(), Vec::new());
        loop {
            match frames.next(peer.name())? {
                Some(Frame::Cells(image)) => cells.extend(self.decoded(image, peer.name())?),
                Some(Frame::End) => return Ok(cells),
                Some(Frame::Failed(error)) => return Err(error.into()),
                Some(Frame::Rows(_)) => return Err(damaged(peer.name(), "it has rows")),
                None => match bytes.next().await {
                    Some(more) => frames.add(&more?),
                    None => return Err(cut_off(peer.name())),
                },
            }
        }
    }

    fn decoded(&self, image: TileImage, peer: &str) -> Result<Vec<Cells>> {
        if image.bytes.is_empty() {
            return Ok(Vec::new());
        }
        let names: Vec<&str> = self.columns.iter().map(String::as_str).collect();
        let wanted = Projection::of_columns(&self.definition, self.level, &names);
        let wanted = wanted.map_err(|e| DataFusionError::External(Box::new(e)))?;
        let refused = |error: aggregator::Error| damaged(peer, &error.to_string());
        let file = TileFile::open(Arc::clone(&self.definition), Bytes::from(image.bytes));
        let file = file.map_err(refused)?;
        let sections = image.sections.iter();
        let cells = sections.map(|section| file.read(section, &wanted, &Filter::ALL));
        cells.map(|cells| cells.map_err(refused)).collect()
    }
}

fn damaged(peer: &str, why: &str) -> DataFusionError {
    let error = Error::Peer {
        peer: peer.to_owned(),
        why: format!("its cells are not readable: {why}"),
    };
    error.into()
}
