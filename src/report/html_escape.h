/* SPDX-License-Identifier: Apache-2.0 */
/* Text inside of HTML. */
#ifndef REPORT_HTML_ESCAPE_H
#define REPORT_HTML_ESCAPE_H

#include "base/buf.h"
#include "base/str.h"

/* Appends s escaped for use as text, and as the value of an attribute in either kind of quotes: replaces the same
 * characters as Go's html/template, by the same text. */
void html_put(struct buf *out, struct str s);

#endif
