#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ui_tree.py NODES: folded stacks whose call tree has about NODES nodes: 20,000 functions, bushy below the tenth frame."""
import random
import sys

nodes = int(sys.argv[1])
rnd = random.Random(1)
names = [f"github.com/acme/{rnd.choice(['shop', 'cart', 'search', 'auth'])}/pkg{i % 97}.(*Type{i % 331}).Method{i}" for i in range(20000)]
lines = []
made = 0
while made < nodes:
    trunk = [names[k] for k in range(3)]
    for level in range(7):
        trunk.append(names[10 * level + min(9, int(rnd.expovariate(0.5)))])
    rest = rnd.randint(12, 32)
    lines.append(";".join(trunk + [names[min(19999, int(rnd.expovariate(1 / 3000)))] for _ in range(rest)]) + f" {rnd.randint(1, 50)}")
    made += rest
sys.stdout.write("\n".join(lines) + "\n")
