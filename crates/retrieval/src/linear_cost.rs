//! Checks that a function takes about eight times as long for eight times the text.

use std::time::{Duration, Instant};

/// How many units the short text has, and the long one.
const UNITS: [usize; 2] = [2_000, 16_000];

/// Checks the cost of what `prepare` returns for a text of so many units.
pub(crate) fn assert_cost_is_linear<F: FnMut()>(name: &str, prepare: impl Fn(usize) -> F) {
    let [mut short, mut long] = UNITS.map(prepare);
    let (mut small, mut large) = (Duration::MAX, Duration::MAX);
    // Quadratic work takes 64 times as long however often it is measured. A busy machine slows a few measurements.
    let is_about_linear = (0..20).any(|_| {
        small = small.min(measure(&mut short));
        large = large.min(measure(&mut long));
        large < small * 28
    });
    assert!(is_about_linear, "{name}: {small:?}, then {large:?}");
}

fn measure(work: &mut impl FnMut()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}
