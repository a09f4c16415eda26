/* SPDX-License-Identifier: Apache-2.0 */
/* Adds a script to graphviz's SVG (pprof_svg.h). The document around the script is as pprof writes it; the script is
 * wick's own. */
#include "pprof/pprof_svg.h"

#include "base/regex.h"

static const char script[] =
    "\n'use strict';\n"
    "addEventListener('load', function () {\n"
    "  var root = document.documentElement, view = document.getElementById('viewport');\n"
    "  var scale = 0.5, x = 0, y = 0, grab = null;\n"
    "  function apply() {\n"
    "    view.setAttribute('transform', 'translate(' + x + ',' + y + ') scale(' + scale + ')');\n"
    "  }\n"
    "  function zoom(factor, cx, cy) {\n"
    "    var next = Math.min(20, Math.max(0.02, scale * factor));\n"
    "    x = cx - (cx - x) * next / scale;\n"
    "    y = cy - (cy - y) * next / scale;\n"
    "    scale = next;\n"
    "    apply();\n"
    "  }\n"
    "  root.addEventListener('wheel', function (e) {\n"
    "    e.preventDefault();\n"
    "    zoom(Math.pow(1.001, -e.deltaY), e.clientX, e.clientY);\n"
    "  }, {passive: false});\n"
    "  root.addEventListener('pointerdown', function (e) {\n"
    "    if (e.button === 0) { grab = {x: e.clientX - x, y: e.clientY - y}; }\n"
    "  });\n"
    "  root.addEventListener('pointermove', function (e) {\n"
    "    if (!grab) { return; }\n"
    "    e.preventDefault();\n"
    "    x = e.clientX - grab.x;\n"
    "    y = e.clientY - grab.y;\n"
    "    apply();\n"
    "  });\n"
    "  addEventListener('pointerup', function () { grab = null; });\n"
    "  addEventListener('keydown', function (e) {\n"
    "    if (e.key === '+' || e.key === '=') { zoom(1.25, innerWidth / 2, innerHeight / 2); }\n"
    "    if (e.key === '-') { zoom(0.8, innerWidth / 2, innerHeight / 2); }\n"
    "    if (e.key === '0') { scale = 0.5; x = y = 0; apply(); }\n"
    "  });\n"
    "});\n";

static bool find(const char *pattern, struct str text, size_t *start, size_t *end)
{
    struct regex *re;
    bool found;

    if (regex_new(str_from(pattern), &re, NULL) < 0)
        return false;
    found = regex_find(re, text, 0, start, end, NULL, 0);
    regex_free(re);
    return found;
}

/* graphviz fails to escape some ampersands. */
static void put_quoted(struct buf *out, struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        buf_putc(out, s.p[i]);
        if (s.p[i] == '&' && i + 1 < s.n && s.p[i + 1] == ';')
            buf_puts(out, "amp;");
    }
}

void pprof_svg_script(struct str svg, struct buf *out)
{
    size_t start, end, pos = 0, close;

    if (find("<svg\\s*width=\"[^\"]+\"\\s*height=\"[^\"]+\"\\s*viewBox=\"[^\"]+\"", svg, &start, &end)) {
        put_quoted(out, str_slice(svg, 0, start));
        buf_puts(out, "<svg width=\"100%\" height=\"100%\"");
        pos = end;
    }
    if (find("<g id=\"graph\\d\"", svg, &start, &end) && start >= pos) {
        put_quoted(out, str_slice(svg, pos, start));
        buf_printf(out, "<script type=\"text/ecmascript\"><![CDATA[%s]]></script>", script);
        buf_puts(out, "<g id=\"viewport\" transform=\"scale(0.5,0.5) translate(0,0)\">");
        pos = start;
    }
    if (find("</svg>", svg, &close, &end) && close >= pos) {
        put_quoted(out, str_slice(svg, pos, close));
        buf_puts(out, "</g>");
        pos = close;
    }
    put_quoted(out, str_slice(svg, pos, svg.n));
}
