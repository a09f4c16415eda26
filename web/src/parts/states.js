// SPDX-License-Identifier: Apache-2.0
// The states of a part of a page without data: loading, empty, invalid, refused, unreachable. Each says what to do.
import {href} from "../lib/url.js";

// A text that changes is a new one: one that only grew would count as moved where it is aligned to the right. Anything
// but a text is left as it is.
export const fresh = (text) =>
    typeof text === "string" || typeof text === "number" ? <span key={text}>{text}</span> : text;

export function Box({title, children, kind = ""}) {
    return (
        <div class={"state " + kind} role={kind === "error" ? "alert" : "status"}>
            <h2>{title}</h2>
            <div>{children}</div>
        </div>
    );
}

export function Loading({what = "profiles"}) {
    return (
        <div class="state loading" role="status">
            <div class="pulse" aria-hidden="true" />
            <p class="muted">Loading {what}…</p>
        </div>
    );
}

export function Failed({error, reload}) {
    const again = reload && (
        <p>
            <button onClick={reload}>Try again</button>
        </p>
    );
    switch (error.kind) {
        case "gone":
            return (
                <Box kind="error" title="The server does not respond">
                    <p>
                        Is <code>wick serve</code> still running? This page retries every two seconds and continues by
                        itself.
                    </p>
                    {again}
                </Box>
            );
        case "login":
            return (
                <Box kind="error" title="Please log in">
                    <p>
                        A token is required. An administrator can create one with:{" "}
                        <code>wick token create --scope read</code>.
                    </p>
                    <p>
                        <a class="button" href={href("login")}>
                            Log in
                        </a>
                    </p>
                </Box>
            );
        case "denied":
            return (
                <Box kind="error" title="Your token does not allow this">
                    <p>{error.message}</p>
                    <p>
                        Ask an administrator for a token with the required scope:{" "}
                        <code>wick token create --scope read</code> (or admin).
                    </p>
                </Box>
            );
        case "busy":
            return (
                <Box kind="error" title="The query took too long">
                    <p>{error.message}</p>
                    <p>
                        Use a shorter time range or add a filter, or raise <code>limits.query_time</code> in wick.yaml.
                    </p>
                    {again}
                </Box>
            );
        case "missing":
            return (
                <Box title="Not found">
                    <p>{error.message}</p>
                    {again}
                </Box>
            );
        default:
            return (
                <Box kind="error" title="Error">
                    <p>{error.message}</p>
                    {again}
                </Box>
            );
    }
}

// A URL that means nothing: says why, and leads to one that does.
export function Wrong({text}) {
    return (
        <Box kind="error" title="This link does not work">
            <p>{text}</p>
            <p>
                <a class="button" href={href("explore")}>
                    Explore
                </a>{" "}
                <a class="button" href={href("services")}>
                    Services
                </a>
            </p>
        </Box>
    );
}

// The server's notes about an answer: damaged parts of the store that are missing from it.
export function Notes({notes}) {
    if (!notes?.damaged) return null;
    return (
        <p class="banner damage" role="alert" title={notes.damage}>
            {notes.damaged === 1 ? "One piece" : `${notes.damaged} pieces`} of stored data could not be read and{" "}
            {notes.damaged === 1 ? "is" : "are"} missing from this answer ({notes.damage}). Run{" "}
            <code>wick store check</code>.
        </p>
    );
}

// Turns data / error / loading of useData() into a part of a page; empty(data): true if it has no content.
export function Loaded({of, what, empty, nothing, children}) {
    if (of.error && !(of.error.kind === "gone" && of.data)) return <Failed error={of.error} reload={of.reload} />;
    if (!of.data) return <Loading what={what} />;
    const notes = <Notes notes={of.notes ?? of.data.notes} />;
    if (empty?.(of.data))
        return (
            <>
                {notes}
                {nothing}
            </>
        );
    return (
        <div class={"loaded" + (of.loading ? " waiting" : "")} aria-busy={!!of.loading}>
            {notes}
            {children(of.data)}
        </div>
    );
}
