//! Products of rows, with the widest instructions the machine has. The loops are plain; the compiler makes vector
//! instructions of them, once for every machine and once for those that have AVX2.

use std::sync::LazyLock;

/// The two products, chosen for this machine.
pub(super) struct Kernel {
    /// Of two rows of signed bytes.
    pub(super) bytes: fn(&[u8], &[u8]) -> i32,
    /// Of the bytes of numbers, little end first, with numbers.
    pub(super) numbers: fn(&[u8], &[f32]) -> f32,
}

/// What this machine uses.
pub(super) static KERNEL: LazyLock<Kernel> = LazyLock::new(|| {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        return Kernel { bytes: wide::bytes, numbers: wide::numbers };
    }
    Kernel { bytes, numbers }
});

#[cfg(target_arch = "x86_64")]
mod wide {
    pub(super) fn bytes(left: &[u8], right: &[u8]) -> i32 {
        #[target_feature(enable = "avx2")]
        fn inside(left: &[u8], right: &[u8]) -> i32 {
            super::bytes(left, right)
        }
        // SAFETY: this function is chosen only after the machine was seen to have AVX2.
        #[allow(unsafe_code, reason = "instructions beyond the baseline have no safe call")]
        unsafe {
            inside(left, right)
        }
    }

    pub(super) fn numbers(bytes: &[u8], numbers: &[f32]) -> f32 {
        #[target_feature(enable = "avx2")]
        fn inside(bytes: &[u8], numbers: &[f32]) -> f32 {
            super::numbers(bytes, numbers)
        }
        // SAFETY: as above.
        #[allow(unsafe_code, reason = "instructions beyond the baseline have no safe call")]
        unsafe {
            inside(bytes, numbers)
        }
    }
}

/// Sums wrap instead of being checked: rows of bytes would need 130,000 numbers to overflow, and a check in the loop
/// keeps the compiler from using vector instructions.
#[inline(always)]
fn bytes(left: &[u8], right: &[u8]) -> i32 {
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
fn numbers(bytes: &[u8], numbers: &[f32]) -> f32 {
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
