// SPDX-License-Identifier: Apache-2.0
import {html} from "htm/preact";
export function Compare() {
    return html`<p>Compare</p>`;
}
