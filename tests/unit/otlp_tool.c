/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives the OTLP codecs for tests/integration/test_otlp.py, which has protobuf's own library as the oracle:
 *
 *     otlp_tool FROM TO IN OUT       FROM, TO: pb, json; FROM also file (any form), TO
 *                                    also refs (pb with string references), framed, dump
 *
 * Exit 1 with the decoder's words on stderr when IN is refused. Checks batch_validate() on every batch it makes.
 */
#include <stdio.h>

#include "base/buf.h"
#include "base/fd.h"
#include "codec/otlp.h"
#include "codec/otlp_file.h"
#include "model/batch.h"
#include "batch_validate.h"

static int decode(const char *from, struct buf *in, struct batch **ret, struct err *e)
{
    if (str_is(STR("file"), from))
        return otlp_file_decode(in, NULL, ret, e);
    return str_is(STR("json"), from) ? otlp_json_decode(in, NULL, ret, e) : otlp_decode(in, NULL, ret, e);
}

static int encode(const char *to, const struct batch *b, struct buf *out, struct err *e)
{
    struct otlp_encode_options refs = {.references = true};

    if (str_is(STR("json"), to))
        return otlp_json_encode(b, out, e);
    if (str_is(STR("framed"), to))
        return otlp_file_encode(OTLP_FILE_FRAMED, b, out, e);
    return otlp_encode(b, str_is(STR("refs"), to) ? &refs : NULL, out, e);
}

/* Groups, defaults and memory: what the encoded form does not show. */
static void dump(const struct batch *b, struct buf *out)
{
    buf_printf(out, "memory %zu input %zu\n", batch_memory(b), b->input_size);
    for (uint32_t i = 0; i < b->n_profiles; i++)
        buf_printf(out, "profile %u group %u default %u samples %u\n", i, b->profiles[i].group,
                   b->profiles[i].default_type, b->profiles[i].samples.n);
}

int main(int argc, char **argv)
{
    _cleanup_(buf_done) struct buf in = BUF_INIT, out = BUF_INIT;
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    struct err e = {0};
    int r;

    if (argc != 5)
        return 2;
    r = fd_read_file(argv[3], 256 << 20, &in, &e);
    if (r == 0)
        r = decode(argv[1], &in, &b, &e);
    if (r == 0)
        r = batch_validate(b, &e);
    if (r == 0 && str_is(STR("dump"), argv[2]))
        dump(b, &out);
    else if (r == 0)
        r = encode(argv[2], b, &out, &e);
    if (r == 0)
        r = fd_write_file(argv[4], out.p ? out.p : "", out.n, &e);
    if (r < 0)
        fprintf(stderr, "%s\n", err_message(&e, r));
    return r < 0 ? 1 : 0;
}
