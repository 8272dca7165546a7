//! Gives free memory back to the system while a server is idle.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

const INTERVAL: Duration = Duration::from_secs(3);

/// Gives free memory back as long as the server runs. The allocator does so only when memory is asked for, and an idle
/// server asks for none: what a start or an upload took would stay.
pub(crate) async fn keep_giving_back(stop: CancellationToken) {
    while stop.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_some() {
        give_back();
    }
}

/// Gives back what all threads freed, except for pages that a thread keeps for its next allocations.
#[allow(unsafe_code, reason = "the crate of the allocator has no function for this")]
fn give_back() {
    unsafe extern "C" {
        fn mi_collect(force: bool);
    }
    // SAFETY: the function belongs to the allocator of this program and may be called at any time by any thread.
    unsafe { mi_collect(true) }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn free_memory_goes_back_to_the_system() {
        let resident_pages = || -> usize {
            let sizes = std::fs::read_to_string("/proc/self/statm").unwrap();
            sizes.split(' ').nth(1).unwrap().parse().unwrap()
        };
        let blocks: Vec<Vec<u8>> = (0..200).map(|_| vec![1; 1 << 20]).collect();
        let full = resident_pages();
        drop(std::hint::black_box(blocks));
        super::give_back();
        assert!(resident_pages() < full * 3 / 4, "{} of {full} pages are resident", resident_pages());
    }
}
