// SPDX-License-Identifier: Apache-2.0
// What rests on few samples looks like it: hatched, with a line that says so.

export const FEW = 20;

export function Weak({when, text, children}) {
    return (
        <div class={when ? "weak" : "solid"}>
            {when ? (
                <p class="weak-note" role="status">
                    {text}
                </p>
            ) : (
                ""
            )}
            {children}
        </div>
    );
}
