// SPDX-License-Identifier: Apache-2.0
// A service that prices orders. Nothing is compiled into it:
//
//     rustc -O -g checkout.rs && wick run -t cpu,heap,lock --export http://localhost:4317 -- ./checkout
use std::{thread, time::Duration};

#[inline(never)]
fn price_item(n: u64) -> u64 {
    (0..40 * n).fold(0, |total, i| (total * 31 + i) % 1_000_003)
}

#[inline(never)]
fn encode_order(items: &[u64]) -> String {
    format!("{items:?}")
}

#[inline(never)]
fn handle_order(n: u64) -> usize {
    let items: Vec<u64> = (0..20).map(|_| price_item(2000 + n % 7)).collect();
    encode_order(&items).len()
}

fn main() {
    let mut bytes = 0;
    for n in 0.. {
        bytes += handle_order(n);
        thread::sleep(Duration::from_millis(5));
        if bytes == usize::MAX {
            break;
        }
    }
}
