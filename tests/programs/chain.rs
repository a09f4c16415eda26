// SPDX-License-Identifier: Apache-2.0
// A known chain of calls in Rust: main, worker, rec, leaf. chain_rs [SECONDS]
use std::hint::black_box;
use std::time::Instant;

#[inline(never)]
fn leaf(n: u64) -> u64 {
    let mut x = black_box(n);
    for i in 0..n {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(black_box(i));
    }
    x
}

#[inline(never)]
fn rec(depth: u32) -> u64 {
    let r = if depth > 0 { rec(black_box(depth - 1)) } else { leaf(20000) };
    black_box(r).wrapping_add(1)
}

#[inline(never)]
fn worker() -> u64 {
    black_box(rec(30)) ^ 1
}

fn main() {
    let seconds = std::env::args().nth(1).map_or(1.0, |s| s.parse().unwrap());
    let start = Instant::now();
    let mut sum = 0u64;
    while start.elapsed().as_secs_f64() < seconds {
        sum = sum.wrapping_add(worker());
    }
    println!("{}", sum & 1);
}
