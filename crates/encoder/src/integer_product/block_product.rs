//! The inner loop of a matrix product: one panel of weights with one block of rows. One version for every machine, and
//! one each for AVX2 and AVX-512 VNNI, which multiply many values at a time.

use super::{BLOCK, PANEL, QUAD};

/// The sums of a block: one for each row and output.
pub(crate) type BlockSums = [[i32; PANEL]; BLOCK];

/// Instructions that multiply a panel with a block.
pub(crate) trait BlockProduct: Copy {
    /// Writes the exact sums: of each output its start, plus the products of its weights with each row.
    fn multiply(self, panel: &[i8], start: &[i32; PANEL], block: &[u8], sums: &mut BlockSums);
}

/// Instructions that every machine has.
#[derive(Clone, Copy)]
pub(crate) struct PortableProduct;

impl BlockProduct for PortableProduct {
    #[inline(always)]
    fn multiply(self, panel: &[i8], start: &[i32; PANEL], block: &[u8], sums: &mut BlockSums) {
        sums.fill(*start);
        let (panel, block) =
            (panel.as_chunks::<{ PANEL * QUAD }>().0, block.as_chunks::<{ BLOCK * QUAD }>().0);
        for (row, sums) in sums.iter_mut().enumerate() {
            for (weights, values) in panel.iter().zip(block) {
                let values = &values.as_chunks::<QUAD>().0[row].map(i32::from);
                for (sum, weights) in sums.iter_mut().zip(weights.as_chunks::<QUAD>().0) {
                    // `MAX_COLUMNS` keeps the sums small enough. A check here would keep the compiler from computing
                    // them side by side.
                    for (weight, value) in weights.iter().zip(values) {
                        *sum = sum.wrapping_add(i32::from(*weight).wrapping_mul(*value));
                    }
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2Product, Avx512Product};

#[cfg(target_arch = "x86_64")]
#[allow(
    unsafe_code,
    reason = "instructions beyond the baseline, and their loads and stores, have no safe call"
)]
mod x86 {
    use std::arch::x86_64::{
        __m128i, __m256i, __m512i, _mm_loadu_si128, _mm256_add_epi32, _mm256_cvtepi8_epi16,
        _mm256_cvtepu8_epi16, _mm256_hadd_epi32, _mm256_loadu_si256, _mm256_madd_epi16,
        _mm256_permute4x64_epi64, _mm256_setzero_si256, _mm256_storeu_si256, _mm512_dpbusd_epi32,
        _mm512_loadu_si512, _mm512_set1_epi32, _mm512_storeu_si512,
    };

    use super::{BLOCK, BlockProduct, BlockSums, PANEL, QUAD};

    /// AVX2. Only [`detect`](Self::detect) makes one.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx2Product(());

    /// AVX-512 VNNI. Only [`detect`](Self::detect) makes one.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx512Product(());

    impl Avx2Product {
        /// Returns it if this machine has AVX2 and FMA.
        pub(crate) fn detect() -> Option<Self> {
            (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")).then_some(Self(()))
        }
    }

    impl Avx512Product {
        /// Returns it if this machine has AVX-512 with VNNI.
        pub(crate) fn detect() -> Option<Self> {
            let found = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vnni")
                && is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma");
            found.then_some(Self(()))
        }
    }

    impl BlockProduct for Avx512Product {
        #[inline(always)]
        fn multiply(self, panel: &[i8], start: &[i32; PANEL], block: &[u8], sums: &mut BlockSums) {
            // SAFETY: `self` exists only if the machine has these instructions.
            unsafe { multiply_avx512(panel, start, block, sums) }
        }
    }

    impl BlockProduct for Avx2Product {
        #[inline(always)]
        fn multiply(self, panel: &[i8], start: &[i32; PANEL], block: &[u8], sums: &mut BlockSums) {
            // SAFETY: `self` exists only if the machine has these instructions.
            unsafe { multiply_avx2(panel, start, block, sums) }
        }
    }

    #[target_feature(enable = "avx512f,avx512vnni")]
    fn multiply_avx512(panel: &[i8], start: &[i32; PANEL], block: &[u8], sums: &mut BlockSums) {
        let load = |from: *const __m512i| {
            // SAFETY: the callers below give the halves of arrays of 128 bytes, and the load needs no alignment.
            unsafe { _mm512_loadu_si512(from) }
        };
        let halves = |from: *const __m512i| [load(from), load(from.wrapping_add(1))];
        let mut totals = [halves(start.as_ptr().cast()); BLOCK];
        let panel = panel.as_chunks::<{ PANEL * QUAD }>().0;
        for (weights, values) in panel.iter().zip(block.as_chunks::<{ BLOCK * QUAD }>().0) {
            let [low, high] = halves(weights.as_ptr().cast());
            for (total, value) in totals.iter_mut().zip(values.as_chunks::<QUAD>().0) {
                let value = _mm512_set1_epi32(i32::from_le_bytes(*value));
                total[0] = _mm512_dpbusd_epi32(total[0], value, low);
                total[1] = _mm512_dpbusd_epi32(total[1], value, high);
            }
        }
        for (sums, [low, high]) in sums.iter_mut().zip(totals) {
            let into: *mut __m512i = sums.as_mut_ptr().cast();
            // SAFETY: a row of sums has 128 bytes, and the store needs no alignment.
            unsafe {
                _mm512_storeu_si512(into, low);
                _mm512_storeu_si512(into.wrapping_add(1), high);
            }
        }
    }

    /// Half of the rows with 8 outputs at a time, as many sums as there are registers. AVX2 cannot add products of bytes
    /// without losing some, so bytes are widened to 16 bits.
    #[target_feature(enable = "avx2")]
    fn multiply_avx2(panel: &[i8], start: &[i32; PANEL], block: &[u8], sums: &mut BlockSums) {
        let panel = panel.as_chunks::<{ PANEL * QUAD }>().0;
        let block = block.as_chunks::<{ BLOCK * QUAD }>().0;
        for first_row in [0, BLOCK / 2] {
            for first_output in [0, 8, 16, 24] {
                let mut totals = [[_mm256_setzero_si256(); 2]; BLOCK / 2];
                for (weights, values) in panel.iter().zip(block) {
                    let weights: *const __m128i = weights[first_output * QUAD..][..32].as_ptr().cast();
                    let values: *const __m128i = values[first_row * QUAD..][..16].as_ptr().cast();
                    // SAFETY: the slices have 32 and 16 bytes, and the loads need no alignment.
                    let (low, high, values) = unsafe {
                        (
                            _mm_loadu_si128(weights),
                            _mm_loadu_si128(weights.wrapping_add(1)),
                            _mm_loadu_si128(values),
                        )
                    };
                    let (low, high) = (_mm256_cvtepi8_epi16(low), _mm256_cvtepi8_epi16(high));
                    let values = _mm256_cvtepu8_epi16(values);
                    let rows = [
                        _mm256_permute4x64_epi64::<0b0000_0000>(values),
                        _mm256_permute4x64_epi64::<0b0101_0101>(values),
                        _mm256_permute4x64_epi64::<0b1010_1010>(values),
                        _mm256_permute4x64_epi64::<0b1111_1111>(values),
                    ];
                    for (total, row) in totals.iter_mut().zip(rows) {
                        total[0] = _mm256_add_epi32(total[0], _mm256_madd_epi16(low, row));
                        total[1] = _mm256_add_epi32(total[1], _mm256_madd_epi16(high, row));
                    }
                }
                let start: *const __m256i = start[first_output..][..8].as_ptr().cast();
                // SAFETY: the slice has 32 bytes, and the load needs no alignment.
                let start = unsafe { _mm256_loadu_si256(start) };
                for (sums, [low, high]) in sums[first_row..].iter_mut().zip(totals) {
                    // Each output has two sums next to each other. Adding them leaves the outputs out of order.
                    let pairs = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_hadd_epi32(low, high));
                    let into: *mut __m256i = sums[first_output..][..8].as_mut_ptr().cast();
                    // SAFETY: the slice has 32 bytes, and the store needs no alignment.
                    unsafe { _mm256_storeu_si256(into, _mm256_add_epi32(start, pairs)) };
                }
            }
        }
    }
}
