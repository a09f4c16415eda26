// SPDX-License-Identifier: Apache-2.0
import {html} from "htm/preact";
export function Home() {
    return html`<p>Home</p>`;
}
