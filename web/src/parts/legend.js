// SPDX-License-Identifier: Apache-2.0
// The legend of the colours of a difference.
import {html} from "htm/preact";
import {diffColor, themeOf} from "../lib/color.js";

export function DiffLegend() {
    const theme = themeOf();
    return html`<span class="legend" role="img" aria-label="blue: less than before, orange: more than before, grey: no significant change"><span>less</span>${[-0.8, -0.3, -0.06, 0, 0.06, 0.3, 0.8].map((d) => html`<i key=${d} style=${{background: diffColor(d, theme)}}></i>`)}<span>more</span><span>· grey: not significant</span></span>`;
}
