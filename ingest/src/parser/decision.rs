//! The decision of `auto` for a format.

use super::Parser;
use crate::detect::{Detection, SAMPLE_LINES, detect};
use crate::formats::Format;
use crate::reader::Choice;
use crate::source::Multiline;

impl Parser {
    /// Takes the decision of `auto`, once it has decided by lines.
    pub fn take_detection(&mut self) -> Option<Detection> {
        self.detection.take()
    }

    /// Lets `auto` search a block while it has not decided, for a format that it may choose. When
    /// [`SAMPLE_LINES`] lines fit nothing, it gives up for good.
    pub(super) fn decide(
        &mut self,
        block: &[u8],
        rule: Option<&Multiline>,
        may_choose: impl Fn(&Format) -> bool,
    ) {
        let Some(searched) = self.undecided else {
            return;
        };
        let detection = detect(block, rule);
        let searched = searched + detection.lines;
        match detection.format.clone().filter(may_choose) {
            Some(format) => {
                self.detection = Some(detection);
                self.choose(format);
            }
            None => self.undecided = (searched < SAMPLE_LINES).then_some(searched),
        }
    }

    /// Reads in this format from now on, by the decision of `auto`.
    pub(super) fn choose(&mut self, format: Format) {
        self.undecided = None;
        self.reader = format.reader(&self.options, Choice::Auto);
        self.format = format;
    }
}
