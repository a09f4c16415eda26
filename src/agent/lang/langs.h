/* SPDX-License-Identifier: Apache-2.0 */
/* The list of languages. A new language is a folder (lang.h says what is in it) and a line here; everything else reads
 * this list: the build, the BPF programs, the agent, the process that reads binaries, and `wick dump`. A process belongs
 * to the first language that finds its runtime there. This file is included several times. */
LANG(python)
LANG(hotspot)
LANG(go)
LANG(v8js)
