// SPDX-License-Identifier: Apache-2.0
import {html} from "htm/preact";
export function Services() {
    return html`<p>Services</p>`;
}
