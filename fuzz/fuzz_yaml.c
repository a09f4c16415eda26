/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as configuration: parse, print what was read, read it again. ${...} is not expanded: it would open files. */
#include "base/buf.h"
#include "conf/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct conf_node *n = NULL, *again = NULL;
    struct conf c;
    struct err e;

    conf_init(&c);
    if (size < 1 << 20 && conf_parse(&c, (struct str){(const char *) data, (uint32_t) size}, "fuzz", &n, &e) == 0) {
        buf_init(&b, 64 << 20);
        conf_print(&b, n, 0);
        if (buf_error(&b) == 0)
            conf_parse(&c, buf_str(&b), "again", &again, &e);
    }
    conf_done(&c);
    return 0;
}
