// SPDX-License-Identifier: Apache-2.0
// The flame graph for screen readers: the path from the root to the focused frame, as tree items.
import {siblings} from "./layout.js";
import {amount, digitsOf, samplesOf, shareText} from "../lib/units.js";

function describe(l, i, {cover, diff}) {
    const {tree} = l;
    const words = [tree.isFolded(i) ? `${tree.folded?.[i] ?? 0} small frames, folded` : tree.name(i)];
    if (tree.columns > 1) {
        const [a, b] = tree.total;
        const rate = diff?.cover?.rate;
        words.push(`before ${shareText(a[i], a[0], tree.unit, rate)}`, `now ${shareText(b[i], b[0], tree.unit, rate)}`);
    } else {
        const v = tree.total[0][i];
        words.push(
            `${shareText(v, tree.total[0][0], tree.unit, cover?.rate)} of all`,
            amount(v, tree.unit, tree.type, digitsOf(samplesOf(v, tree.unit, cover?.rate))),
        );
    }
    return words.join(", ");
}

export function AriaPath({id, l, node, cover, diff}) {
    const path = [];
    for (let i = node; ; i = l.tree.parent[i]) {
        path.push(i);
        if (!i) break;
    }
    path.reverse();
    return (
        <div class="sr" role="group">
            {path.map((i, level) => {
                const {list, at} = siblings(l, i);
                const open = l.first[i] < l.first[i + 1];
                return (
                    <div
                        role="treeitem"
                        key={i}
                        id={i === node ? id + "-item" : undefined}
                        aria-level={level + 1}
                        aria-setsize={list.length}
                        aria-posinset={at + 1}
                        aria-selected={i === node ? "true" : "false"}
                        aria-expanded={open ? i !== node : undefined}
                    >
                        {describe(l, i, {cover, diff})}
                    </div>
                );
            })}
        </div>
    );
}
