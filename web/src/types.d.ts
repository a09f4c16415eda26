// SPDX-License-Identifier: Apache-2.0
// What tsc cannot see in the sources: attributes of elements, style sheets, and what the canvas carries for tests.
import type {JSX as Preact} from "preact";

declare global {
    namespace JSX {
        type Element = Preact.Element;
        type ElementType = Preact.ElementType;
        interface ElementChildrenAttribute extends Preact.ElementChildrenAttribute {}
        interface IntrinsicAttributes extends Preact.IntrinsicAttributes {}
        interface IntrinsicElements extends Preact.IntrinsicElements {}
    }
    interface Element {
        wickEngine?: import("./flame/engine.js").Engine;
    }
}
