// SPDX-License-Identifier: Apache-2.0
import {html} from "htm/preact";
export function Senders() {
    return html`<p>Senders</p>`;
}
