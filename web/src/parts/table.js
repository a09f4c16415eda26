// SPDX-License-Identifier: Apache-2.0
// Tables: sortable by their column headers, rows that can be navigated with the keyboard; only the visible rows are in
// the page.
import {useLayoutEffect, useMemo, useRef, useState} from "preact/hooks";
import {fresh} from "./states.js";

const ROW_PX = 26,
    SPARE = 12;

// The order of a sorted column, for screen readers and for the eye.
export const sortWord = (up) => (up ? "ascending" : "descending");
export const sortArrow = (up) => (up ? " ↑" : " ↓");

// columns: {key, title, num, value(row) for sorting, show(row), cls}; rows; sort: {key, up} with onSort; onPick(row);
// rowKey(row); caption; still: rows keep their places when their values change, until another order is chosen.
/**
 * @param {{columns: any[], rows: any[], caption: string, rowKey: (row: any) => any, sort?: {key: any, up: boolean},
 *     onSort?: (sort: {key: string, up: boolean}) => void, onPick?: (row: any) => void, selected?: any,
 *     still?: boolean, cls?: string}} props
 */
export function Table({columns, rows, sort, onSort, onPick, rowKey, caption, selected, still = false, cls = ""}) {
    const box = useRef(null),
        places = useRef(/** @type {any} */ ({}));
    const [top, setTop] = useState(0);
    const [height, setHeight] = useState(600);
    const sorted = useMemo(() => {
        const c = columns.find((x) => x.key === sort?.key);
        if (!c?.value) return rows;
        const way = sort.up ? 1 : -1;
        const list = [...rows].sort((a, b) => {
            const p = c.value(a),
                q = c.value(b);
            return way * (typeof p === "string" ? p.localeCompare(q) : p - q);
        });
        if (!still) return list;
        const order = sort.key + sort.up,
            old = places.current.order === order ? places.current.at : new Map();
        const at = new Map(old);
        for (const r of list) if (!at.has(rowKey(r))) at.set(rowKey(r), at.size);
        places.current = {order, at};
        return list.sort((a, b) => at.get(rowKey(a)) - at.get(rowKey(b)));
    }, [rows, sort?.key, sort?.up, columns]);
    useLayoutEffect(() => {
        const watch = new ResizeObserver(() => setHeight(box.current?.clientHeight || 600));
        watch.observe(box.current);
        return () => watch.disconnect();
    }, []);
    const from = Math.max(0, Math.floor(top / ROW_PX) - SPARE),
        to = Math.min(sorted.length, Math.ceil((top + height) / ROW_PX) + SPARE);
    const head = (c) => {
        const mine = sort?.key === c.key;
        return (
            <th
                scope="col"
                class={(c.num ? "num " : "") + (c.cls ?? "")}
                aria-sort={mine ? sortWord(sort.up) : undefined}
            >
                {c.value && onSort ? (
                    <button class="head" onClick={() => onSort({key: c.key, up: mine ? !sort.up : !c.num})}>
                        {c.title}
                        <span aria-hidden="true">{mine && sortArrow(sort.up)}</span>
                    </button>
                ) : (
                    c.title
                )}
            </th>
        );
    };
    const keys = (e, r) => {
        if (e.key === "Enter" && onPick) onPick(r);
        const tr = e.currentTarget;
        let next;
        if (e.key === "ArrowDown") next = tr.nextElementSibling;
        else if (e.key === "ArrowUp") next = tr.previousElementSibling;
        else next = null;
        if (next?.tabIndex === 0 || next?.dataset.row) {
            e.preventDefault();
            next.focus();
        }
    };
    return (
        <div
            class={"table-box " + cls}
            ref={box}
            onScroll={(e) => setTop(e.currentTarget.scrollTop)}
            tabindex={onPick ? undefined : 0}
            role="region"
            aria-label={caption}
        >
            <table aria-rowcount={sorted.length + 1}>
                <caption class="sr">{caption}</caption>
                <thead>
                    <tr>{columns.map(head)}</tr>
                </thead>
                <tbody>
                    {from > 0 && (
                        <tr aria-hidden="true" class="gap">
                            <td colspan={columns.length} style={{height: from * ROW_PX + "px"}} />
                        </tr>
                    )}
                    {sorted.slice(from, to).map((r, i) => (
                        <tr
                            key={rowKey(r)}
                            data-row="1"
                            aria-rowindex={from + i + 2}
                            class={selected && rowKey(r) === selected ? "selected" : ""}
                            {...(onPick
                                ? {
                                      tabindex: 0,
                                      onClick: () => onPick(r),
                                      onKeyDown: (e) => keys(e, r),
                                      class: "pick" + (selected && rowKey(r) === selected ? " selected" : ""),
                                  }
                                : {})}
                        >
                            {columns.map((c) => (
                                <td class={(c.num ? "num " : "") + (c.cls ?? "")}>
                                    {c.num ? fresh(c.show(r)) : c.show(r)}
                                </td>
                            ))}
                        </tr>
                    ))}
                    {to < sorted.length && (
                        <tr aria-hidden="true" class="gap">
                            <td colspan={columns.length} style={{height: (sorted.length - to) * ROW_PX + "px"}} />
                        </tr>
                    )}
                </tbody>
            </table>
        </div>
    );
}

// A share as a bar behind a number.
export function Bar({share, children}) {
    return (
        <span class="bar">
            <span class="bar-fill" style={{width: Math.max(0, Math.min(1, share)) * 100 + "%"}} />
            <span class="bar-text">{fresh(children)}</span>
        </span>
    );
}
