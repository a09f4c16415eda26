// SPDX-License-Identifier: Apache-2.0
//! Threads that wait for a Mutex, for a RwLock, and (idle) for a condition and for each other. Prints how long the first two took, in ns.
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, RwLock};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

static WAITED: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
static MUTEX: Mutex<u64> = Mutex::new(0);
static RWLOCK: RwLock<u64> = RwLock::new(0);

fn timed<T>(which: usize, take: impl FnOnce() -> T) {
    let begin = Instant::now();
    let held = take();
    WAITED[which].fetch_add(begin.elapsed().as_nanos() as u64, Ordering::Relaxed);
    sleep(Duration::from_millis(5));
    drop(held);
}

#[inline(never)]
fn for_mutex() {
    timed(0, || MUTEX.lock().unwrap());
}

#[inline(never)]
fn for_rwlock() {
    timed(1, || RWLOCK.write().unwrap());
}

#[inline(never)]
fn idle() {
    let nothing = (Mutex::new(()), Condvar::new());
    let held = nothing.0.lock().unwrap();
    drop(nothing.1.wait_timeout(held, Duration::from_secs(1)).unwrap());
    std::thread::park_timeout(Duration::from_secs(1));
}

fn main() {
    scope(|s| {
        s.spawn(idle);
        for _ in 0..4 {
            s.spawn(|| (0..100).for_each(|_| for_mutex()));
            s.spawn(|| (0..100).for_each(|_| for_rwlock()));
        }
    });
    println!("{} {}", WAITED[0].load(Ordering::Relaxed), WAITED[1].load(Ordering::Relaxed));
}
