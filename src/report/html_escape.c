/* SPDX-License-Identifier: Apache-2.0 */
/* Escapes text for HTML. */
#include "report/html_escape.h"

void html_put(struct buf *out, struct str s)
{
    for (uint32_t i = 0; i < s.n; i++)
        switch (s.p[i]) {
        case '&':
            buf_puts(out, "&amp;");
            break;
        case '<':
            buf_puts(out, "&lt;");
            break;
        case '>':
            buf_puts(out, "&gt;");
            break;
        case '"':
            buf_puts(out, "&#34;");
            break;
        case '\'':
            buf_puts(out, "&#39;");
            break;
        case '+':
            buf_puts(out, "&#43;");
            break;
        case 0:
            buf_puts(out, "\xef\xbf\xbd");
            break;
        default:
            buf_putc(out, s.p[i]);
        }
}
