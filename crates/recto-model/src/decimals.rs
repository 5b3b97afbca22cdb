//! Type of decimals: `BigDecimal` of the crate `bigdecimal` if the feature `bigdecimal` is enabled,
//! otherwise a type without arithmetic.

#[cfg(feature = "bigdecimal")]
pub use bigdecimal::BigDecimal;
#[cfg(not(feature = "bigdecimal"))]
pub use plain::BigDecimal;

#[cfg(not(feature = "bigdecimal"))]
mod plain {
    use std::borrow::Cow;

    use num_bigint::BigInt;

    /// Decimal: an integer, and the number of its digits after the decimal point. Decimals are
    /// equal only if integer and number of digits are equal, so 1.0 and 1.00 differ.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct BigDecimal {
        unscaled: BigInt,
        scale: i64,
    }

    impl BigDecimal {
        /// Returns the decimal `unscaled` times ten to the power of minus `scale`.
        pub fn new(unscaled: BigInt, scale: i64) -> Self {
            Self { unscaled, scale }
        }

        /// Returns the integer and the scale: the number of its digits after the decimal point.
        pub fn as_bigint_and_scale(&self) -> (Cow<'_, BigInt>, i64) {
            (Cow::Borrowed(&self.unscaled), self.scale)
        }
    }
}
