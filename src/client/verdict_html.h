/* SPDX-License-Identifier: Apache-2.0 */
/* `wick query verdict SERVICE --html FILE`: what was compared, as one self-contained HTML file. */
#ifndef CLIENT_VERDICT_HTML_H
#define CLIENT_VERDICT_HTML_H

#include "client/ask.h"

/* json: the answer of verdict. Fetches both sides from the server and writes a flame graph of their difference, with the
 * sentence of the verdict as its title. -ENODATA if nothing was compared, -ENOTSUP without a server. */
int verdict_html(const struct ask_target *t, struct str json, const char *path, struct err *e);

#endif
