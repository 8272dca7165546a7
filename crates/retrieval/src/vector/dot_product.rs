//! Dot products of rows. The portable loops are vectorised by the compiler. On machines with AVX2 or AVX-512 VNNI, the
//! int8 product uses their instructions directly, which multiply more values at a time.

use std::sync::LazyLock;

/// The two dot products for this machine.
pub(super) struct DotProductKernel {
    /// The product of two rows of signed bytes.
    pub(super) int8_dot: fn(&[u8], &[u8]) -> i32,
    /// The product of little-endian f32 bytes with numbers.
    pub(super) f32_dot: fn(&[u8], &[f32]) -> f32,
}

/// The functions for this machine.
pub(super) static DOT_PRODUCT_KERNEL: LazyLock<DotProductKernel> = LazyLock::new(|| {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512vnni")
        && std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx2")
    {
        return DotProductKernel { int8_dot: avx512_vnni::int8_dot, f32_dot: avx2::f32_dot };
    }
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        return DotProductKernel { int8_dot: avx2::int8_dot, f32_dot: avx2::f32_dot };
    }
    DotProductKernel { int8_dot, f32_dot }
});

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "instructions beyond the baseline have no safe call")]
mod avx2 {
    use std::arch::x86_64::{
        __m256i, _mm256_abs_epi8, _mm256_add_epi32, _mm256_loadu_si256, _mm256_madd_epi16,
        _mm256_maddubs_epi16, _mm256_set1_epi16, _mm256_setzero_si256, _mm256_sign_epi8, _mm256_storeu_si256,
    };

    const LANES: usize = 32;

    pub(super) fn int8_dot(left: &[u8], right: &[u8]) -> i32 {
        // SAFETY: this function is chosen only if the machine has AVX2.
        unsafe { int8_dot_avx2(left, right) }
    }

    /// The multiply instruction needs one unsigned side, so the signs are moved to the other side. Values are between
    /// −127 and 127, so two products fit into 16 bits.
    #[target_feature(enable = "avx2")]
    fn int8_dot_avx2(left: &[u8], right: &[u8]) -> i32 {
        let ((lefts, left_rest), (rights, right_rest)) =
            (left.as_chunks::<LANES>(), right.as_chunks::<LANES>());
        let ones = _mm256_set1_epi16(1);
        let mut sums = _mm256_setzero_si256();
        for (left, right) in lefts.iter().zip(rights) {
            // SAFETY: both arrays are 32 bytes long, and the load needs no alignment.
            let (left, right) = unsafe {
                (
                    _mm256_loadu_si256(left.as_ptr().cast::<__m256i>()),
                    _mm256_loadu_si256(right.as_ptr().cast::<__m256i>()),
                )
            };
            let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(left), _mm256_sign_epi8(right, left));
            sums = _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, ones));
        }
        let mut lanes = [0_i32; 8];
        // SAFETY: the array is 32 bytes long, and the store needs no alignment.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast::<__m256i>(), sums) };
        lanes.into_iter().fold(super::int8_dot(left_rest, right_rest), i32::wrapping_add)
    }

    pub(super) fn f32_dot(bytes: &[u8], numbers: &[f32]) -> f32 {
        #[target_feature(enable = "avx2")]
        fn inside(bytes: &[u8], numbers: &[f32]) -> f32 {
            super::f32_dot(bytes, numbers)
        }
        // SAFETY: this function is chosen only if the machine has AVX2.
        unsafe { inside(bytes, numbers) }
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "instructions beyond the baseline have no safe call")]
mod avx512_vnni {
    use std::arch::x86_64::{
        __m512i, _mm512_dpbusd_epi32, _mm512_loadu_si512, _mm512_reduce_add_epi32, _mm512_set1_epi8,
        _mm512_setzero_si512, _mm512_slli_epi32, _mm512_sub_epi32, _mm512_xor_si512,
    };

    const LANES: usize = 64;

    pub(super) fn int8_dot(left: &[u8], right: &[u8]) -> i32 {
        // SAFETY: this function is chosen only if the machine has these instructions.
        unsafe { int8_dot_avx512(left, right) }
    }

    /// The instruction needs an unsigned left side: 128 is added to it, and 128 times the right side is subtracted from
    /// the sum.
    #[target_feature(enable = "avx512f,avx512vnni")]
    fn int8_dot_avx512(left: &[u8], right: &[u8]) -> i32 {
        let ((lefts, left_rest), (rights, right_rest)) =
            (left.as_chunks::<LANES>(), right.as_chunks::<LANES>());
        let (shift, ones) = (_mm512_set1_epi8(i8::MIN), _mm512_set1_epi8(1));
        let (mut sums, mut extra) = (_mm512_setzero_si512(), _mm512_setzero_si512());
        for (left, right) in lefts.iter().zip(rights) {
            // SAFETY: both arrays are 64 bytes long, and the load needs no alignment.
            let (left, right) = unsafe {
                (
                    _mm512_loadu_si512(left.as_ptr().cast::<__m512i>()),
                    _mm512_loadu_si512(right.as_ptr().cast::<__m512i>()),
                )
            };
            sums = _mm512_dpbusd_epi32(sums, _mm512_xor_si512(left, shift), right);
            extra = _mm512_dpbusd_epi32(extra, ones, right);
        }
        let sums = _mm512_sub_epi32(sums, _mm512_slli_epi32::<7>(extra));
        _mm512_reduce_add_epi32(sums).wrapping_add(super::int8_dot(left_rest, right_rest))
    }
}

/// Prefetches bytes that will be read soon.
#[inline]
pub(super) fn prefetch(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code, reason = "the hint has no safe call")]
    for line in bytes.chunks(64) {
        // SAFETY: the address is that of an existing byte, and a prefetch neither reads nor writes it.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line.as_ptr().cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

/// Sums wrap instead of being checked. Overflow would need rows of 130,000 values, and a check in the loop would
/// prevent vectorisation.
#[inline(always)]
fn int8_dot(left: &[u8], right: &[u8]) -> i32 {
    const LANES: usize = 32;
    let of = |left: u8, right: u8| i32::from(left.cast_signed()).wrapping_mul(i32::from(right.cast_signed()));
    let ((lefts, left_rest), (rights, right_rest)) = (left.as_chunks::<LANES>(), right.as_chunks::<LANES>());
    let mut sums = [0_i32; LANES];
    for (left, right) in lefts.iter().zip(rights) {
        for lane in 0..LANES {
            sums[lane] = sums[lane].wrapping_add(of(left[lane], right[lane]));
        }
    }
    let rest = left_rest.iter().zip(right_rest).map(|(left, right)| of(*left, *right));
    sums.into_iter().chain(rest).fold(0, i32::wrapping_add)
}

#[inline(always)]
fn f32_dot(bytes: &[u8], numbers: &[f32]) -> f32 {
    const LANES: usize = 16;
    let ((lefts, left_rest), (rights, right_rest)) =
        (bytes.as_chunks::<{ LANES * 4 }>(), numbers.as_chunks::<LANES>());
    let number = |bytes: &[u8], at: usize| {
        f32::from_le_bytes([bytes[at * 4], bytes[at * 4 + 1], bytes[at * 4 + 2], bytes[at * 4 + 3]])
    };
    let mut sums = [0.0_f32; LANES];
    for (left, right) in lefts.iter().zip(rights) {
        for lane in 0..LANES {
            sums[lane] += number(left, lane) * right[lane];
        }
    }
    let rest = right_rest.iter().enumerate().map(|(at, right)| number(left_rest, at) * right);
    sums.into_iter().sum::<f32>() + rest.sum::<f32>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_instructions_and_plain_loops_agree() {
        for length in [0, 1, 31, 32, 33, 100, 512, 1000] {
            let byte = |at: usize, times: usize| ((at * times % 255) as i16 - 127) as i8;
            let left: Vec<u8> = (0..length).map(|at| byte(at, 37).cast_unsigned()).collect();
            let right: Vec<u8> = (0..length).map(|at| byte(at, 101).cast_unsigned()).collect();
            assert_eq!((DOT_PRODUCT_KERNEL.int8_dot)(&left, &right), int8_dot(&left, &right), "{length}");
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") {
                assert_eq!(avx2::int8_dot(&left, &right), int8_dot(&left, &right), "{length}");
            }
            let extreme = vec![(-127_i8).cast_unsigned(); length];
            assert_eq!(
                (DOT_PRODUCT_KERNEL.int8_dot)(&extreme, &extreme),
                127 * 127 * length as i32,
                "{length}"
            );
            let given: Vec<f32> = (0..length).map(|at| at as f32 * 0.5).collect();
            let whole: Vec<u8> = given.iter().flat_map(|number| number.to_le_bytes()).collect();
            let exact: f64 = given.iter().map(|number| f64::from(*number) * f64::from(*number)).sum();
            let close = f64::from((DOT_PRODUCT_KERNEL.f32_dot)(&whole, &given)) - exact;
            assert!(close.abs() <= exact * 1e-5, "{length}: {close}");
        }
    }
}
