//! Reads the weights of the encoder from an `npz` archive: a zip of arrays, each with a header that gives its shape.

use std::io::{Cursor, Read};

use zip::ZipArchive;

use super::super::matrix::Matrix;

/// The number of blocks of the embedding table. Piece `i` is row `i / TABLE_BLOCKS` of block `i % TABLE_BLOCKS`.
pub(super) const TABLE_BLOCKS: usize = 17;

/// The number of rows in a block.
const BLOCK_ROWS: usize = 7530;

/// The dimension of a piece.
pub(super) const EMBEDDING_WIDTH: usize = 512;

/// The dimension of a branch.
pub(super) const BRANCH_WIDTH: usize = 256;

/// The maximum size of an array in bytes.
const MAX_ARRAY_BYTES: u64 = 16 << 20;

/// The windows of the three branches: the number of pieces, and how many of them are to the left.
pub(super) const BRANCH_WINDOWS: [(usize, usize); 3] = [(2, 0), (3, 1), (5, 2)];

/// All weights of the encoder.
pub(super) struct UniversalEncoderWeights {
    /// The embedding table, one byte a value.
    table: Vec<u8>,
    scale: Vec<f32>,
    minimum: Vec<f32>,
    /// The input layer of the three branches, side by side.
    pub(super) branch_input: Matrix,
    pub(super) branch_input_bias: Vec<f32>,
    pub(super) branch_input_scale: Vec<f32>,
    pub(super) branch_input_shift: Vec<f32>,
    pub(super) branches: [ConvolutionBranch; 3],
    pub(super) out_scale: Vec<f32>,
    pub(super) out_shift: Vec<f32>,
    pub(super) out: Matrix,
    pub(super) out_bias: Vec<f32>,
    /// The layers above the sum.
    pub(super) top: TopLayers,
    pub(super) epsilon: f32,
}

/// Two convolution layers.
pub(super) struct ConvolutionBranch {
    pub(super) first: Matrix,
    pub(super) first_bias: Vec<f32>,
    pub(super) second: Matrix,
    pub(super) second_bias: Vec<f32>,
}

/// Two blocks with residual connections.
pub(super) struct TopLayers {
    pub(super) first: Matrix,
    pub(super) second: Matrix,
    pub(super) around_second: Matrix,
    pub(super) third: Matrix,
    pub(super) fourth: Matrix,
    pub(super) around_fourth: Matrix,
}

/// Why the weights cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the weights are not what they should be: {0}")]
pub(super) struct WeightsFileError(String);

impl UniversalEncoderWeights {
    /// Reads an archive.
    pub(super) fn read(file: &[u8]) -> Result<Self, WeightsFileError> {
        let archive =
            ZipArchive::new(Cursor::new(file)).map_err(|error| WeightsFileError(error.to_string()))?;
        let mut npz = NpzArchive(archive);
        let mut table = vec![0; TABLE_BLOCKS * BLOCK_ROWS * EMBEDDING_WIDTH];
        for block in 0..TABLE_BLOCKS {
            let array = npz.array(&format!("q{}", block + 1))?;
            let bytes = array.bytes(BLOCK_ROWS, EMBEDDING_WIDTH)?;
            for (row, numbers) in bytes.chunks_exact(EMBEDDING_WIDTH).enumerate() {
                let at = (row * TABLE_BLOCKS + block) * EMBEDDING_WIDTH;
                table[at..at + EMBEDDING_WIDTH].copy_from_slice(numbers);
            }
        }
        let mut side_by_side = Matrix::zeros(EMBEDDING_WIDTH, 3 * BRANCH_WIDTH);
        let (mut into_bias, mut into_scale, mut into_shift) = (Vec::new(), Vec::new(), Vec::new());
        for (at, (size, _)) in BRANCH_WINDOWS.iter().enumerate() {
            let part = npz.matrix(&format!("proj{size}"), EMBEDDING_WIDTH, BRANCH_WIDTH)?;
            for row in 0..EMBEDDING_WIDTH {
                side_by_side.row_mut(row)[at * BRANCH_WIDTH..(at + 1) * BRANCH_WIDTH]
                    .copy_from_slice(part.row(row));
            }
            into_bias.extend(npz.row(&format!("proj_b{size}"), BRANCH_WIDTH)?);
            into_scale.extend(npz.row(&format!("ln_g{size}"), BRANCH_WIDTH)?);
            into_shift.extend(npz.row(&format!("ln_b{size}"), BRANCH_WIDTH)?);
        }
        let mut branch = |size: usize| -> Result<ConvolutionBranch, WeightsFileError> {
            Ok(ConvolutionBranch {
                first: npz.matrix(&format!("w1_{size}"), size * BRANCH_WIDTH, BRANCH_WIDTH)?,
                first_bias: npz.row(&format!("b1_{size}"), BRANCH_WIDTH)?,
                second: npz.matrix(&format!("w2_{size}"), size * BRANCH_WIDTH, BRANCH_WIDTH)?,
                second_bias: npz.row(&format!("b2_{size}"), BRANCH_WIDTH)?,
            })
        };
        let branches = [branch(2)?, branch(3)?, branch(5)?];
        let features = EMBEDDING_WIDTH + 3 * BRANCH_WIDTH;
        let epsilon = npz.array("eps")?.scalar()?;
        Ok(Self {
            table,
            scale: npz.row("scale", TABLE_BLOCKS)?,
            minimum: npz.row("lo", TABLE_BLOCKS)?,
            branch_input: side_by_side,
            branch_input_bias: into_bias,
            branch_input_scale: into_scale,
            branch_input_shift: into_shift,
            branches,
            out_scale: npz.row("ln_g", features)?,
            out_shift: npz.row("ln_b", features)?,
            out: npz.matrix("cnn_W", features, EMBEDDING_WIDTH)?,
            out_bias: npz.row("cnn_b", EMBEDDING_WIDTH)?,
            top: TopLayers {
                first: npz.matrix("d0", EMBEDDING_WIDTH, TOP_WIDTH)?,
                second: npz.matrix("d1", TOP_WIDTH, TOP_WIDTH)?,
                around_second: npz.matrix("p1", EMBEDDING_WIDTH, TOP_WIDTH)?,
                third: npz.matrix("d2", TOP_WIDTH, EMBEDDING_WIDTH)?,
                fourth: npz.matrix("d3", EMBEDDING_WIDTH, EMBEDDING_WIDTH)?,
                around_fourth: npz.matrix("p3", TOP_WIDTH, EMBEDDING_WIDTH)?,
            },
            epsilon,
        })
    }

    /// Returns the number of pieces in the table.
    pub(super) fn piece_count(&self) -> usize {
        TABLE_BLOCKS * BLOCK_ROWS
    }

    /// Writes the vector of a piece. A piece beyond the table is treated as the unknown one.
    pub(super) fn write_piece_vector(&self, id: u32, to: &mut [f32]) {
        let id = if (id as usize) < self.piece_count() { id as usize } else { 0 };
        let (scale, low) = (self.scale[id % TABLE_BLOCKS], self.minimum[id % TABLE_BLOCKS]);
        for (to, byte) in to.iter_mut().zip(&self.table[id * EMBEDDING_WIDTH..(id + 1) * EMBEDDING_WIDTH]) {
            *to = f32::from(*byte) * scale + low;
        }
    }
}

/// The dimension between the top blocks.
const TOP_WIDTH: usize = 320;

struct NpzArchive<'a>(ZipArchive<Cursor<&'a [u8]>>);

impl NpzArchive<'_> {
    fn array(&mut self, name: &str) -> Result<NpyArray, WeightsFileError> {
        let wrong = |error: String| WeightsFileError(format!("`{name}`: {error}"));
        let file = self.0.by_name(&format!("{name}.npy")).map_err(|error| wrong(error.to_string()))?;
        let mut bytes = Vec::new();
        file.take(MAX_ARRAY_BYTES).read_to_end(&mut bytes).map_err(|error| wrong(error.to_string()))?;
        NpyArray::read(bytes).map_err(wrong)
    }

    fn matrix(&mut self, name: &str, rows: usize, width: usize) -> Result<Matrix, WeightsFileError> {
        let array = self.array(name)?;
        let data =
            array.floats(&[rows, width]).map_err(|error| WeightsFileError(format!("`{name}`: {error}")))?;
        Ok(Matrix { data, width })
    }

    fn row(&mut self, name: &str, width: usize) -> Result<Vec<f32>, WeightsFileError> {
        self.array(name)?.floats(&[width]).map_err(|error| WeightsFileError(format!("`{name}`: {error}")))
    }
}

/// An array with its shape.
struct NpyArray {
    kind: String,
    shape: Vec<usize>,
    bytes: Vec<u8>,
    start: usize,
}

impl NpyArray {
    /// Parses the `npy` format: magic, version, header length, header, values.
    fn read(bytes: Vec<u8>) -> Result<Self, String> {
        let short = || "it is cut short".to_owned();
        if !bytes.starts_with(b"\x93NUMPY\x01") {
            return Err("it is no array of a known version".into());
        }
        let length =
            bytes.get(8..10).map(|two| usize::from(two[0]) | usize::from(two[1]) << 8).ok_or_else(short)?;
        let start = 10 + length;
        let head = String::from_utf8_lossy(bytes.get(10..start).ok_or_else(short)?).into_owned();
        let after = |key: &str| head.split_once(key).map(|(_, rest)| rest.trim_start_matches([':', ' ']));
        let kind = after("'descr'").and_then(|rest| rest.split('\'').nth(1)).unwrap_or("").to_owned();
        if after("'fortran_order'").is_none_or(|rest| !rest.starts_with("False")) {
            return Err("its columns stand first".into());
        }
        let shape =
            after("'shape'").and_then(|rest| rest.strip_prefix('(')).and_then(|rest| rest.split(')').next());
        let sizes = shape.ok_or_else(short)?.split(',').map(str::trim).filter(|size| !size.is_empty());
        let shape =
            sizes.map(str::parse).collect::<Result<Vec<usize>, _>>().map_err(|error| error.to_string())?;
        Ok(Self { kind, shape, bytes, start })
    }

    fn raw_numbers(&self, kind: &str, size: usize, shape: &[usize]) -> Result<&[u8], String> {
        let found = format!("{} {:?}", self.kind, self.shape);
        if self.kind != kind || self.shape != shape {
            return Err(format!("it holds {found}, not {kind} {shape:?}"));
        }
        let wanted = shape.iter().product::<usize>() * size;
        let numbers = &self.bytes[self.start..];
        if numbers.len() == wanted {
            Ok(numbers)
        } else {
            Err(format!("{} bytes for {found}", numbers.len()))
        }
    }

    fn bytes(&self, rows: usize, width: usize) -> Result<&[u8], WeightsFileError> {
        self.raw_numbers("|u1", 1, &[rows, width]).map_err(WeightsFileError)
    }

    fn floats(&self, shape: &[usize]) -> Result<Vec<f32>, String> {
        let bytes = self.raw_numbers("<f4", 4, shape)?;
        Ok(bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect())
    }

    /// Returns the value of an array without dimensions.
    fn scalar(&self) -> Result<f32, WeightsFileError> {
        let bytes = self.raw_numbers("<f8", 8, &[]).map_err(WeightsFileError)?;
        let eight = bytes.first_chunk::<8>().ok_or_else(|| WeightsFileError("a number is missing".into()))?;
        Ok(f64::from_le_bytes(*eight) as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn npy(head: &str, numbers: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((head.len() as u16).to_le_bytes());
        bytes.extend(head.as_bytes());
        bytes.extend(numbers);
        bytes
    }

    #[test]
    fn an_array_is_read_with_its_shape() {
        let head = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }\n";
        let array = NpyArray::read(npy(head, &[0, 0, 128, 63, 0, 0, 0, 64])).expect("an array");
        assert_eq!(array.floats(&[1, 2]), Ok(vec![1.0, 2.0]));
        assert!(array.floats(&[2, 1]).is_err() && array.bytes(1, 2).is_err());
    }

    #[test]
    fn broken_arrays_are_refused() {
        let fortran = "{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }";
        assert!(NpyArray::read(npy(fortran, &[0; 4])).is_err());
        assert!(NpyArray::read(npy("{}", &[])).is_err());
        assert!(NpyArray::read(b"\x93NUMPY\x01\x00\xFF\xFF".to_vec()).is_err());
        assert!(NpyArray::read(Vec::new()).is_err());
        let short = "{'descr': '<f4', 'fortran_order': False, 'shape': (9,), }";
        assert!(NpyArray::read(npy(short, &[0; 4])).expect("an array").floats(&[9]).is_err());
        assert!(UniversalEncoderWeights::read(b"no zip").is_err());
    }
}
