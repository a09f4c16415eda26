/* SPDX-License-Identifier: Apache-2.0 */
/* Links from a file name in a profile to its line in a forge or an editor, by the `source` section of wick.yaml. */
#ifndef SERVER_SOURCE_LINK_H
#define SERVER_SOURCE_LINK_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"

struct serve_source;

/* Appends the template of one entry with {repository} and {dir} filled in; {path}, {line} and {revision} remain. False
 * if it has no template. */
bool source_link_template(const struct serve_source *s, struct buf *out);
/* Appends the complete link. False if the entry does not match the file or has no template. */
bool source_link(const struct serve_source *s, struct str file, uint64_t line, struct str revision, struct buf *out);

#endif
