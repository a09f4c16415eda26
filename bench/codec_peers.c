/* SPDX-License-Identifier: Apache-2.0 */
/* See codec_peers.h. */
#include "codec_peers.h"

#include <json-c/json.h>
#include <yajl/yajl_parse.h>

bool peer_json_c(const char *p, size_t n)
{
    struct json_tokener *t = json_tokener_new_ex(64);
    struct json_object *o = json_tokener_parse_ex(t, p, (int) n);

    json_tokener_free(t);
    return o && json_object_put(o) == 1;
}

static int on_event(void *c)
{
    return 1;
}

static int on_bool(void *c, int v)
{
    return 1;
}

static int on_number(void *c, const char *s, size_t n)
{
    return 1;
}

static int on_string(void *c, const unsigned char *s, size_t n)
{
    return 1;
}

bool peer_yajl(const char *p, size_t n)
{
    static yajl_callbacks callbacks = {
        .yajl_null = on_event,
        .yajl_boolean = on_bool,
        .yajl_number = on_number,
        .yajl_string = on_string,
        .yajl_start_map = on_event,
        .yajl_map_key = on_string,
        .yajl_end_map = on_event,
        .yajl_start_array = on_event,
        .yajl_end_array = on_event,
    };
    yajl_handle h = yajl_alloc(&callbacks, NULL, NULL);
    bool ok = yajl_parse(h, (const unsigned char *) p, n) == yajl_status_ok && yajl_complete_parse(h) == yajl_status_ok;

    yajl_free(h);
    return ok;
}
