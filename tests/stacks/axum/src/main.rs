// SPDX-License-Identifier: Apache-2.0

//! A service with axum, with the system's allocator, jemalloc or mimalloc. A request answers with its own account of what it did, in
//! ns; `held` is what the program keeps allocated, in bytes.
use axum::{routing::get, Router};
use std::hint::black_box;
use std::sync::Mutex;
use std::time::{Duration, Instant};

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

static LOCK: Mutex<()> = Mutex::new(());
const HELD: usize = 40 << 20;

#[inline(never)]
fn price(n: u64) -> f64 {
    (0..n).fold(0.0, |x, i| black_box(x + (i as f64) / 3.0))
}

#[inline(never)]
fn tax(n: u64) -> f64 {
    (0..n).fold(1.0, |x, i| black_box(x + (i as f64) / 7.0))
}

#[inline(never)]
fn render(n: u64) -> f64 {
    (0..n).fold(2.0, |x, i| black_box(x + (i as f64) / 11.0))
}

fn thread_ns() -> i64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    t.tv_sec * 1_000_000_000 + t.tv_nsec
}

fn cpu(f: fn(u64) -> f64, n: u64) -> i64 {
    let begin = thread_ns();
    black_box(f(n));
    thread_ns() - begin
}

#[inline(never)]
fn guarded() -> u128 {
    let begin = Instant::now();
    let _held = LOCK.lock().unwrap();
    let waited = begin.elapsed().as_nanos();
    std::thread::sleep(Duration::from_millis(2));
    waited
}

#[inline(never)]
fn keep() -> Vec<Vec<u8>> {
    (0..HELD / 65536).map(|i| vec![i as u8; 65536]).collect()
}

async fn order() -> String {
    let account = tokio::task::spawn_blocking(|| {
        let size = 3 * (500_000 + thread_ns() as u64 % 1_000_000); // no clock is in step with it
        let (p, t, r) = (cpu(price, size * 6 / 10), cpu(tax, size * 3 / 10), cpu(render, size / 10));
        format!("{{\"price\":{p},\"tax\":{t},\"render\":{r},\"waited\":{},\"pid\":{}}}", guarded(), std::process::id())
    });
    account.await.unwrap()
}

#[tokio::main]
async fn main() {
    let kept = keep();
    let port = std::env::args().nth(1).unwrap();
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await.unwrap();
    axum::serve(listener, Router::new().route("/order", get(order))).await.unwrap();
    black_box(kept);
}
