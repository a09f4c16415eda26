/* SPDX-License-Identifier: Apache-2.0 */
/* Text inside of HTML. */
#ifndef REPORT_HTML_ESCAPE_H
#define REPORT_HTML_ESCAPE_H

#include "base/buf.h"
#include "base/str.h"

/* Appends s so that it is text, and the value of an attribute in either kind of quotes: the characters that Go's
 * html/template replaces, by what it replaces them with. */
void html_put(struct buf *out, struct str s);

#endif
