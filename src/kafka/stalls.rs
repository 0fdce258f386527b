//! The number of times for which a partition that gives nothing is begun again.

/// Maximum seeks because of one end.
const SEEKS_MAX: u32 = 3;

/// The looks at the end of a partition from which no record came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Stalls {
    end: u64,
    seeks: u32,
}

impl Stalls {
    /// Returns whether the partition is to begin again because it ends there. The last offsets may
    /// have no records (markers of transactions, and what these ended), so an end is a reason only
    /// a few times.
    pub(super) fn may_seek(&mut self, end: u64) -> bool {
        if self.end != end {
            *self = Self { end, seeks: 0 };
        }
        self.seeks += 1;
        self.seeks <= SEEKS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_a_reason_to_seek_a_few_times_and_a_later_one_again() {
        let mut stalls = Stalls::default();
        for end in [7, 9, 200] {
            let seeks: Vec<bool> = (0..5).map(|_| stalls.may_seek(end)).collect();
            assert_eq!(seeks, [true, true, true, false, false], "{end}");
        }
    }
}
