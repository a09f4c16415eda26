/* SPDX-License-Identifier: Apache-2.0 */
/* What comes from an object store or stands for an object: XML answers, files of credentials, locations, and N.cold. The first
 * byte selects which. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "objects/s3_place.h"
#include "objects/s3_xml.h"
#include "store/engines/segment/cold/cold_stub.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_xml(struct str text)
{
    static const char *const names[] = {"Key", "Size", "Code", "Message", "UploadId", "NextContinuationToken"};
    struct str rest = text, item;
    struct arena a;

    arena_init(&a, 0);
    while (s3_xml_next(&rest, "Contents", &item)) {
        if (item.n > text.n || rest.n >= text.n)
            abort();
        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
            if (s3_xml_text(item, names[i], &a).n > item.n)
                abort();
    }
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        s3_xml_text(text, names[i], &a);
    arena_done(&a);
}

static void read_stub(const uint8_t *data, size_t size)
{
    struct cold_stub s;

    for (uint64_t extra = 0; extra < 3; extra++)
        if (cold_stub_parse(data, size, size + extra * 4096, &s) == 0) {
            int64_t at = cold_stub_find(&s, s.size / 2, 10);

            if (at >= 0 && (uint64_t) at + 10 > size + extra * 4096)
                abort();
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct s3_credentials c = {0};
    struct s3_place p;
    struct str rest;
    char *text;

    if (!size || size > 65536)
        return 0;
    rest = (struct str){(const char *) data + 1, (uint32_t) size - 1};
    switch (data[0] % 4) {
    case 0:
        read_xml(rest);
        break;
    case 1:
        s3_credentials_parse(rest, &c, NULL);
        s3_credentials_done(&c);
        break;
    case 2:
        text = strndup((const char *) data + 1, size - 1);
        s3_place_parse(text, &p, NULL);
        s3_place_done(&p);
        free(text);
        break;
    default:
        read_stub(data + 1, size - 1);
    }
    return 0;
}
