//! Reads `safetensors` files: a length, a JSON header and the values.

use std::collections::HashMap;

use serde::Deserialize;

use super::super::matrix::Matrix;

/// The maximum size of the header.
const MAX_HEADER_BYTES: usize = 16 << 20;

/// The tensors of a file, by name.
pub(super) struct SafeTensors<'a> {
    header: HashMap<String, TensorHeaderEntry>,
    body: &'a [u8],
}

#[derive(Deserialize)]
struct TensorHeaderEntry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [usize; 2],
}

impl<'a> SafeTensors<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        let (length, rest) = bytes.split_first_chunk::<8>().ok_or("it is too short")?;
        let length =
            usize::try_from(u64::from_le_bytes(*length)).ok().filter(|length| *length <= MAX_HEADER_BYTES);
        let (head, body) =
            length.and_then(|length| rest.split_at_checked(length)).ok_or("its head is cut off")?;
        let mut head: HashMap<String, serde_json::Value> =
            serde_json::from_slice(head).map_err(|error| error.to_string())?;
        head.remove("__metadata__");
        let typed = |(name, value)| Ok((name, TensorHeaderEntry::deserialize(value)?));
        let head: Result<_, serde_json::Error> = head.into_iter().map(typed).collect();
        Ok(Self { header: head.map_err(|error| error.to_string())?, body })
    }

    /// Returns a vector.
    pub(super) fn row(&self, name: &str, width: usize) -> Result<Vec<f32>, String> {
        self.numbers(name, &[width])
    }

    /// Returns a matrix as it is stored.
    pub(super) fn rows(&self, name: &str, width: usize) -> Result<Matrix, String> {
        let rows = self.entry(name)?.shape.first().copied().unwrap_or_default();
        Ok(Matrix { data: self.numbers(name, &[rows, width])?, width })
    }

    /// Returns a layer transposed: it is stored as outputs by inputs, and rows are multiplied by inputs by outputs.
    pub(super) fn transposed(&self, name: &str, from: usize, to: usize) -> Result<Matrix, String> {
        let data = self.numbers(name, &[to, from])?;
        let mut turned = Matrix::zeros(from, to);
        for (out, row) in data.chunks_exact(from).enumerate() {
            for (into, number) in row.iter().enumerate() {
                turned.data[into * to + out] = *number;
            }
        }
        Ok(turned)
    }

    /// Looks up a tensor. Some files prefix every name with `bert.`.
    fn entry(&self, name: &str) -> Result<&TensorHeaderEntry, String> {
        let found = self.header.get(name).or_else(|| self.header.get(&format!("bert.{name}")));
        found.ok_or_else(|| format!("there is no `{name}`"))
    }

    fn numbers(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, String> {
        let entry = self.entry(name)?;
        if entry.shape != shape {
            return Err(format!("`{name}` is {:?} and should be {shape:?}", entry.shape));
        }
        let [start, end] = entry.data_offsets;
        let bytes = self.body.get(start..end).ok_or_else(|| format!("`{name}` is cut off"))?;
        let numbers: Vec<f32> = match entry.dtype.as_str() {
            "F32" => bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
            "F16" => {
                bytes.as_chunks::<2>().0.iter().map(|bytes| f16_to_f32(u16::from_le_bytes(*bytes))).collect()
            }
            "BF16" => {
                let whole = |bytes: &[u8; 2]| f32::from_bits(u32::from(u16::from_le_bytes(*bytes)) << 16);
                bytes.as_chunks::<2>().0.iter().map(whole).collect()
            }
            other => return Err(format!("`{name}` has numbers of the kind {other}")),
        };
        let wanted = shape.iter().try_fold(1_usize, |product, side| product.checked_mul(*side));
        if wanted != Some(numbers.len()) {
            return Err(format!("`{name}` has {} numbers", numbers.len()));
        }
        Ok(numbers)
    }
}

/// Converts an IEEE 754 half-precision number.
fn f16_to_f32(bits: u16) -> f32 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f32::from(bits & 0x3ff));
    match exponent {
        0 => sign * fraction * 2_f32.powi(-24),
        0x1f if fraction == 0.0 => sign * f32::INFINITY,
        0x1f => f32::NAN,
        _ => sign * (1.0 + fraction / 1024.0) * 2_f32.powi(exponent - 15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_numbers_are_read() {
        let read = [0x3c00, 0xc000, 0x3555, 0x0001, 0x7bff, 0x0000].map(f16_to_f32);
        let meant = [1.0, -2.0, 0.333_251_95, 5.960_464_5e-8, 65_504.0, 0.0];
        assert_eq!(read, meant);
        assert!(f16_to_f32(0x7c00).is_infinite() && f16_to_f32(0x7e00).is_nan());
    }

    #[test]
    fn a_damaged_file_is_an_error_and_never_a_panic() {
        let error = |bytes: &[u8]| SafeTensors::parse(bytes).map(|_| ()).expect_err("damaged");
        assert_eq!(error(b"short"), "it is too short");
        assert_eq!(error(&u64::MAX.to_le_bytes()), "its head is cut off");
        let file = |head: &str, body: &[u8]| {
            [&(head.len() as u64).to_le_bytes()[..], head.as_bytes(), body].concat()
        };
        let head = r#"{"__metadata__":{"format":"pt"},"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
        let good = file(head, &[0; 8]);
        assert_eq!(SafeTensors::parse(&good).expect("read").row("x", 2).expect("x"), [0.0, 0.0]);
        for (bytes, name, width) in [
            (file(head, &[0; 7]), "x", 2),
            (good.clone(), "x", 3),
            (good, "y", 2),
            (file(&head.replace("F32", "I64"), &[0; 8]), "x", 2),
            (file(&head.replace("[0,8]", "[0,4]"), &[0; 8]), "x", 2),
            (file(&head.replace("[0,8]", "[8,0]"), &[0; 8]), "x", 2),
        ] {
            assert!(SafeTensors::parse(&bytes).expect("a head").row(name, width).is_err(), "{name} {width}");
        }
    }
}
