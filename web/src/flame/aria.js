// SPDX-License-Identifier: Apache-2.0
// The flame graph for screen readers: the path from the root to the focused frame, as tree items.
import {html} from "htm/preact";
import {siblings} from "./layout.js";
import {amount, percent} from "../lib/units.js";

function describe(l, i) {
    const {tree} = l;
    const words = [tree.isFolded(i) ? `${tree.folded?.[i] ?? 0} small frames, folded` : tree.name(i)];
    if (tree.columns > 1) {
        const [a, b] = tree.total;
        words.push(`before ${percent(a[i] / (a[0] || 1))}`, `now ${percent(b[i] / (b[0] || 1))}`);
    } else words.push(`${percent(tree.total[0][i] / (tree.total[0][0] || 1))} of all`, amount(tree.total[0][i], tree.unit, tree.type));
    return words.join(", ");
}

export function AriaPath({id, l, node}) {
    const path = [];
    for (let i = node; ; i = l.tree.parent[i]) {
        path.push(i);
        if (!i) break;
    }
    path.reverse();
    return html`<div class="sr" role="group">${path.map((i, level) => {
        const {list, at} = siblings(l, i);
        const open = l.first[i] < l.first[i + 1];
        return html`<div role="treeitem" key=${i} id=${i === node ? id + "-item" : undefined} aria-level=${level + 1}
            aria-setsize=${list.length} aria-posinset=${at + 1} aria-selected=${i === node ? "true" : "false"}
            aria-expanded=${open ? String(i !== node) : undefined}>${describe(l, i)}</div>`;
    })}</div>`;
}
