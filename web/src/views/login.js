// SPDX-License-Identifier: Apache-2.0
// Login: exchanges a token for a session cookie.
import {useRef, useState} from "preact/hooks";
import {needLogin, openSession, post, session} from "../lib/api.js";
import {base, go, route} from "../lib/url.js";

export function Login() {
    const token = useRef(null);
    const [wrong, setWrong] = useState("");
    const send = async (e) => {
        e.preventDefault();
        try {
            await post("login", token.current.value.trim());
            await openSession();
            needLogin.value = false;
            if (route.peek().path === "login") go("", {});
        } catch (err) {
            setWrong(err.message);
        }
    };
    return (
        <form class="login" onSubmit={send}>
            <h1>Log in</h1>
            {session.value?.provider && (
                <p>
                    <a
                        class="button"
                        href={`${base}oidc/login?to=${encodeURIComponent(location.pathname + location.search)}`}
                    >
                        Log in with {session.value.provider}
                    </a>
                </p>
            )}
            <p>
                A token is required. An administrator can create one with: <code>wick token create --scope read</code>
            </p>
            <label>
                Token{" "}
                <input
                    type="password"
                    autocomplete="current-password"
                    ref={token}
                    required
                    aria-invalid={wrong ? "true" : undefined}
                    aria-describedby="login-wrong"
                />
            </label>
            <p id="login-wrong" class="wrong" role="alert">
                {wrong}
            </p>
            <button class="main">Log in</button>
        </form>
    );
}
