//! A share that is written as a decimal and compared as the fraction that is meant.
//!
//! Two of three calls are 0.666…, which no decimal is. Rounded to 0.6667, or to the nearest millionth, the share
//! could never be met by two of three. An operator who wrote 2/3 would find a circuit that stays closed. So a ratio
//! is read as the simplest fraction that is written like this, and from there on only whole numbers are compared.

/// A share from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ratio {
    part: u64,
    of: u64,
}

impl Ratio {
    /// The fraction that `written` stands for. NaN and negatives are 0, over 1 is 1.
    ///
    /// With up to three decimals it is that decimal: 0.35 is 35 of 100. With four or more it is the fraction with
    /// the smallest denominator that rounds to the same decimals: 0.6667 and `2.0 / 3.0` are both 2 of 3. The
    /// denominator is at most 1,000 and at most the square root of the decimals' own (100 for four): no two such
    /// fractions are written alike. Where there is none, it is the decimal itself.
    pub(super) fn new(written: f64) -> Ratio {
        if written.is_nan() || written <= 0.0 {
            return Ratio { part: 0, of: 1 };
        }
        if written >= 1.0 {
            return Ratio { part: 1, of: 1 };
        }
        // The shortest decimal that reads as this number: what was written, or as good.
        let text = written.to_string();
        let decimals = text.len().saturating_sub("0.".len());
        let denominator = 10u64.saturating_pow(u32::try_from(decimals).unwrap_or(u32::MAX));
        if decimals >= FRACTION_DECIMALS_MIN
            && let Some(meant) = simplest(written, &text, decimals, denominator)
        {
            return meant;
        }
        let of = denominator.min(DENOMINATOR_MAX);
        // Exact: both are whole numbers that the product rounds to.
        Ratio { part: ((written * of as f64).round() as u64).clamp(1, of), of }
    }

    /// Whether `part` of `whole` is this share or more.
    pub(super) fn is_reached_by(self, part: u64, whole: u64) -> bool {
        u128::from(part) * u128::from(self.of) >= u128::from(whole) * u128::from(self.part)
    }

    /// Whether `part` of `whole` is this share or less.
    pub(super) fn has_room_for(self, part: u64, whole: u64) -> bool {
        u128::from(part) * u128::from(self.of) <= u128::from(whole) * u128::from(self.part)
    }
}

/// The fraction with the smallest denominator that is written as `text`.
fn simplest(written: f64, text: &str, decimals: usize, denominator: u64) -> Option<Ratio> {
    (2..=FRACTION_MAX).take_while(|of| of * of <= denominator).find_map(|of| {
        let part = (written * of as f64).round() as u64;
        let share = part as f64 / of as f64;
        let near = (share - written).abs() * denominator as f64 <= 1.0;
        let same = share.total_cmp(&written).is_eq() || (near && format!("{share:.decimals$}") == text);
        (same && 0 < part && part < of).then_some(Ratio { part, of })
    })
}

/// Fewer are what people write of a percentage, and mean so.
const FRACTION_DECIMALS_MIN: usize = 4;

/// The largest denominator that is looked for.
const FRACTION_MAX: u64 = 1_000;

/// Largest denominator: an `f64` holds 15 decimals exactly. More come from a division, and are no closer to what was
/// meant.
const DENOMINATOR_MAX: u64 = 1_000_000_000_000_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fraction(part: u64, of: u64) -> Ratio {
        Ratio { part, of }
    }

    fn divisor(a: u64, b: u64) -> u64 {
        if b == 0 { a } else { divisor(b, a % b) }
    }

    #[test]
    fn a_written_ratio_has_its_meaning() {
        for (written, part, of) in [
            (0.5, 5, 10),
            (0.35, 35, 100),
            (0.67, 67, 100),
            (0.667, 667, 1_000),
            (0.6667, 2, 3),
            (0.666_666_7, 2, 3),
            (2.0 / 3.0, 2, 3),
            (1.0 / 3.0, 1, 3),
            (0.3333, 1, 3),
            (0.1667, 1, 6),
            (0.142_857, 1, 7),
            (1.0 / 300.0, 1, 300),
            (0.0001, 1, 10_000),
            (0.9999, 9_999, 10_000),
            (0.000_01, 1, 100_000),
            (0.0, 0, 1),
            (1.0, 1, 1),
            (-0.5, 0, 1),
            (7.0, 1, 1),
            (f64::NAN, 0, 1),
            (f64::MIN_POSITIVE, 1, DENOMINATOR_MAX),
        ] {
            assert_eq!(Ratio::new(written), fraction(part, of), "{written}");
        }
    }

    #[test]
    fn two_of_three_reach_two_thirds_and_no_more_than_that_has_room() {
        for written in [0.6667, 0.666_67, 2.0 / 3.0] {
            let ratio = Ratio::new(written);
            assert!(ratio.is_reached_by(2, 3) && ratio.has_room_for(2, 3));
            assert!(!ratio.is_reached_by(1_999_999, 3_000_000) && !ratio.has_room_for(2_000_001, 3_000_000));
        }
        assert!(Ratio::new(1.0).is_reached_by(u64::MAX, u64::MAX));
        assert!(Ratio::new(0.0).is_reached_by(0, u64::MAX));
    }

    proptest! {
        /// A fraction that is divided, or written to enough decimals, is that fraction, for every count of calls.
        #[test]
        fn a_fraction_is_compared_as_itself(of in 2u64..=100, seed: u64, decimals in 4usize..=15, whole in 1u64..500) {
            let part = 1 + seed % (of - 1);
            let share = part as f64 / of as f64;
            let written: f64 = format!("{share:.decimals$}").parse().unwrap();
            let shortest = written.to_string().len() - 2;
            // Fewer decimals are left where the last were zeros; three and fewer are taken as they stand.
            prop_assume!(0.0 < written && written < 1.0 && shortest >= 4);
            prop_assume!(of * of <= 10u64.pow(u32::try_from(shortest).unwrap()));
            for ratio in [Ratio::new(share), Ratio::new(written)] {
                for counted in 0..=whole {
                    prop_assert_eq!(ratio.is_reached_by(counted, whole), counted * of >= whole * part);
                    prop_assert_eq!(ratio.has_room_for(counted, whole), counted * of <= whole * part);
                }
            }
            let common = divisor(part, of);
            prop_assert_eq!(Ratio::new(written), fraction(part / common, of / common));
        }

        /// Compares a ratio of up to three decimals as it is written.
        #[test]
        fn a_short_decimal_is_compared_as_itself(thousandths in 1u64..1_000, whole in 1u64..3_000) {
            let ratio = Ratio::new(thousandths as f64 / 1_000.0);
            for counted in 0..=whole {
                prop_assert_eq!(ratio.is_reached_by(counted, whole), counted * 1_000 >= whole * thousandths);
            }
        }

        /// Never further from what was written than half of its last decimal.
        #[test]
        fn a_ratio_rounds_to_the_written_decimals(written in 0.0f64..1.0) {
            let Ratio { part, of } = Ratio::new(written);
            let share = part as f64 / of as f64;
            prop_assert!((share - written).abs() <= 1e-12, "{written} became {part}/{of}");
        }
    }
}
