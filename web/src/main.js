// SPDX-License-Identifier: Apache-2.0
import {html} from "htm/preact";
import {render} from "preact";
import "./app.css";

render(html`<p>wick</p>`, document.getElementById("app"));
