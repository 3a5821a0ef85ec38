//! Element types of stored tensors and their conversion to ours.
//!
//! Published weights are f32, some copies f16 or bf16, our own tests f64. Anything else in the
//! place of a weight is an error, so only these four have a size and a meaning here.

use std::fmt;

use crate::Real;

/// What the elements of a stored tensor are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dtype {
    /// IEEE half precision.
    F16,
    /// The upper half of an f32.
    Bf16,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
    /// Anything that is no weight, by the name its file gives it.
    Other(String),
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
            Self::F32 => "F32",
            Self::F64 => "F64",
            Self::Other(name) => name,
        })
    }
}

impl Dtype {
    /// By the name of a safetensors header.
    pub(super) fn named(name: &str) -> Self {
        match name {
            "F16" => Self::F16,
            "BF16" => Self::Bf16,
            "F32" => Self::F32,
            "F64" => Self::F64,
            other => Self::Other(other.into()),
        }
    }

    /// By the name of a torch storage class.
    pub(super) fn of_storage(class: &str) -> Self {
        match class {
            "HalfStorage" => Self::F16,
            "BFloat16Storage" => Self::Bf16,
            "FloatStorage" => Self::F32,
            "DoubleStorage" => Self::F64,
            other => Self::Other(super::error::plain(other)),
        }
    }

    /// Bytes of one element, if it can be a weight.
    pub(super) fn bytes(&self) -> Option<usize> {
        match self {
            Self::F16 | Self::Bf16 => Some(2),
            Self::F32 => Some(4),
            Self::F64 => Some(8),
            Self::Other(_) => None,
        }
    }

    /// Converts little-endian elements and appends them to `out`.
    pub(super) fn decode<T: Real>(&self, bytes: &[u8], out: &mut Vec<T>) {
        match self {
            Self::F16 => out.extend(bytes.as_chunks().0.iter().map(|&b| {
                let half = half(u16::from_le_bytes(b));
                T::of(f64::from(half))
            })),
            Self::Bf16 => out.extend(bytes.as_chunks().0.iter().map(|&b| {
                let single = f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16);
                T::of(f64::from(single))
            })),
            Self::F32 => out.extend(
                bytes
                    .as_chunks()
                    .0
                    .iter()
                    .map(|&b| T::of(f64::from(f32::from_le_bytes(b)))),
            ),
            Self::F64 => out.extend(
                bytes
                    .as_chunks()
                    .0
                    .iter()
                    .map(|&b| T::of(f64::from_le_bytes(b))),
            ),
            Self::Other(_) => {}
        }
    }
}

/// IEEE half precision to single precision, exact.
fn half(bits: u16) -> f32 {
    let sign = u32::from(bits >> 15) << 31;
    let exponent = u32::from(bits >> 10 & 0x1f);
    let fraction = u32::from(bits & 0x3ff);
    match exponent {
        // Subnormal: fraction * 2^-24, a normal f32.
        0 => f32::from_bits((fraction as f32 / 16_777_216.0).to_bits() | sign),
        0x1f => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode<T: Real>(dtype: Dtype, bytes: &[u8]) -> Vec<T> {
        let mut out = Vec::new();
        dtype.decode(bytes, &mut out);
        out
    }

    #[test]
    fn halves_are_exact() {
        for (bits, value) in [
            (0x0000, 0.0),
            (0x0001, 5.960_464_5e-8),
            (0x03ff, 6.097_555e-5),
            (0x0400, 6.103_515_6e-5),
            (0x3555, 0.333_251_95),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x7c00, f32::INFINITY),
            (0xfc00, f32::NEG_INFINITY),
        ] {
            assert_eq!(half(bits), value, "{bits:#x}");
        }
        assert!(half(0x7e00).is_nan());
        assert!(half(0x8000).is_sign_negative());
        // Every half in order: monotone in its bits.
        assert!((0..0x7c00u16).all(|bits| half(bits) < half(bits + 1)));
    }

    #[test]
    fn all_four_types_decode() {
        assert_eq!(decode::<f32>(Dtype::F16, &[0x00, 0x3c]), [1.0]);
        assert_eq!(decode::<f64>(Dtype::Bf16, &[0xc0, 0x3f]), [1.5]);
        assert_eq!(
            decode::<f32>(Dtype::F32, &(-0.1f32).to_le_bytes()),
            [-0.1f32]
        );
        assert_eq!(decode::<f64>(Dtype::F64, &0.1f64.to_le_bytes()), [0.1]);
        assert_eq!(
            decode::<f32>(Dtype::F64, &1e300f64.to_le_bytes()),
            [f32::INFINITY]
        );
    }

    #[test]
    fn single_precision_survives_bit_for_bit() {
        for bits in (0..u32::MAX).step_by(65_537) {
            let value = f32::from_bits(bits);
            if !value.is_nan() {
                let back = decode::<f32>(Dtype::F32, &bits.to_le_bytes())[0];
                assert_eq!(back.to_bits(), bits);
            }
        }
    }
}
