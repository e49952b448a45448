//! The memory that is taken from the heap: counted, not estimated.
//!
//! Counting needs an allocator of our own, and that needs `unsafe`: the methods below hand everything to the system's
//! allocator unchanged. The library itself forbids unsafe code. Allocations are counted for each thread, so that tests
//! may run at once; what is live is counted for the process.

mod allocations;
mod cut_answer;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Allocations, growth of allocations included, and bytes that are live.
    static COUNT: Cell<(u64, i64)> = const { Cell::new((0, 0)) };
}

fn count(allocations: u64, bytes: i64) {
    let live = if bytes < 0 {
        LIVE.fetch_sub(bytes.unsigned_abs() as usize, Ordering::Relaxed)
    } else {
        LIVE.fetch_add(bytes as usize, Ordering::Relaxed) + bytes as usize
    };
    PEAK.fetch_max(live, Ordering::Relaxed);
    // A thread that is ending has no counter any more; nothing is measured there.
    let _ = COUNT.try_with(|count| {
        let (so_far, live) = count.get();
        count.set((so_far + allocations, live + bytes));
    });
}

// SAFETY: every method passes its arguments on to the system's allocator unchanged and gives back what it gave;
// counting touches two atomics and a plain thread-local cell, which neither allocate nor panic.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        // SAFETY: the caller keeps `alloc`'s contract, which is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, -(layout.size() as i64));
        // SAFETY: `pointer` came from `System` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, size as i64 - layout.size() as i64);
        // SAFETY: `pointer` came from `System` with this layout, and the caller keeps the rest of the contract.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
