// SPDX-License-Identifier: Apache-2.0
import {html} from "htm/preact";
export function Start() {
    return html`<p>Start</p>`;
}
