//! Standard deviations.

use bson::Bson;

use crate::mongo::value::BsonNumber;

/// The deviation of numbers from their mean, which are seen once.
#[derive(Debug, Default)]
pub(in crate::mongo) struct NumberDeviation {
    count: u64,
    mean: f64,
    squares: f64,
}

impl NumberDeviation {
    /// Adds a value; one that is no number does not count.
    pub(in crate::mongo) fn add(&mut self, value: &Bson) {
        let Some(number) = BsonNumber::of(value) else {
            return;
        };
        let number = number.to_double();
        self.count += 1;
        let delta = number - self.mean;
        self.mean += delta / self.count as f64;
        self.squares += delta * (number - self.mean);
    }

    /// Returns the deviation of a whole population, or of a sample; null of too few numbers.
    pub(in crate::mongo) fn finish(&self, is_sample: bool) -> Bson {
        let without = u64::from(is_sample && self.count > 0);
        match self.count - without {
            0 => Bson::Null,
            freedom => Bson::Double((self.squares / freedom as f64).sqrt()),
        }
    }
}
