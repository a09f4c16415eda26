// SPDX-License-Identifier: Apache-2.0
// A small shop with calls that get inlined, for the tests of symbols and source listings.

use std::collections::HashMap;

#[inline(always)]
fn mix(a: f64, b: f64) -> f64 {
    (a * a + b * b).sqrt() + a
}

trait Shop {
    fn total(&self) -> f64;
}

struct Cart<T> {
    items: Vec<T>,
}

impl Shop for Cart<i64> {
    #[inline(never)]
    fn total(&self) -> f64 {
        self.items.iter().fold(0.0, |s, v| mix(s, *v as f64))
    }
}

#[inline(never)]
fn checkout(c: &mut Cart<i64>) -> f64 {
    c.items.sort_by(|a, b| b.cmp(a));
    c.total()
}

fn main() {
    let mut stock: HashMap<String, i64> = HashMap::new();
    let mut c = Cart { items: Vec::new() };
    let mut t = 0.0;
    for i in 0..5000i64 {
        c.items.push(i * 7919 % 1013);
        *stock.entry(format!("k{}", i % 50)).or_insert(0) += i;
        if i % 100 == 0 {
            t += checkout(&mut c);
        }
    }
    println!("{} {}", t, stock.len());
}
