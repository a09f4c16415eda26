/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OTLP profiles <-> struct batch: protobuf and JSON, wire generation G5 (opentelemetry-proto 1.10 and later).
 *
 * The decoder accepts what real senders send: fields in either order, packed and unpacked lists, string references in
 * KeyValue and AnyValue (resolved here: a batch has none), missing tables, tables whose entry 0 is not the zero value
 * (see below), unknown fields. An error message names the byte and the path of the field. A request of an older
 * generation is refused with an error message that names the generation, even if it would decode without an error to
 * wrong values (protobuf of 1.9). JSON of 1.9 has the same names and meaning as JSON of 1.10 and is accepted.
 *
 * Strings are not copied: they point into the request, which must live as long as the batch. otlp_decode() and
 * otlp_json_decode() take the buffer over; the *_borrowed forms leave it with the caller, who may hand it over later
 * with otlp_own() (gRPC: the message begins after a frame header).
 *
 * Tables without a zero value. Some senders number from 0 without keeping entry 0 free (the Collector's pprof
 * receiver). Such a table is shifted by one and every reference with it. A reference of 0 then means the sender's entry
 * 0 where a reference is required (stack of a sample, mapping of a location, function of a line, any list; name of a
 * function, key of an attribute, type of a value type) and none where it is optional (links, units, file names, system
 * names).
 *
 * Groups. A pprof of N sample types arrives as N profiles of one scope with equal times, periods, attributes and
 * samples. The decoder finds them and gives them one `group` (batch.h). The encoder writes a profile of N types that
 * way, and the default type as scope attribute pprof.scope.default_sample_type, which the decoder reads back.
 */
#ifndef CODEC_OTLP_H
#define CODEC_OTLP_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct batch;

/* --- generations --- */
enum otlp_generation {
    OTLP_G0,       /* 1.3, v1experimental */
    OTLP_G1,       /* 1.4, 1.5 */
    OTLP_G1_6,     /* 1.6 */
    OTLP_G2,       /* 1.7 */
    OTLP_G3,       /* 1.8 */
    OTLP_G3_OR_G4, /* 1.8 or 1.9: the request fits both */
    OTLP_G4,       /* 1.9 */
    OTLP_G5,       /* 1.10, 1.11 */
};

/* "opentelemetry-proto 1.9 (generation G4)" */
const char *otlp_generation_name(enum otlp_generation g);
/* Checks the path of an HTTP request or gRPC call: 0 for .../v1development/..., -EPROTONOSUPPORT for v1experimental,
 * -ENOENT for others. */
int otlp_check_path(struct str path, struct err *e);

/* The header (gRPC metadata or HTTP) in which senders state the version of the wire format, and the value that wick
 * sends. */
#define OTLP_VERSION_HEADER "otlp-profiles-development-version"
#define OTLP_VERSION "1"
/* 0 for a version that the decoder reads, else -EPROTONOSUPPORT. A request without the header is not checked. */
int otlp_check_version(struct str value, struct err *e);

/* --- decoding --- */
enum { OTLP_INPUT_MAX = 64 << 20 }; /* the limit that OTLP recommends to receivers */

struct otlp_limits {
    size_t input;  /* bytes of one request; 0 = OTLP_INPUT_MAX */
    size_t memory; /* bytes of the batch without the request; 0 = 1 MiB + 8 x the request */
};

/* On success *ret belongs to the caller and in is empty: the batch owns its memory. On failure in is unchanged. -EINVAL
 * malformed; -EPROTONOSUPPORT an older generation; -EFBIG over a limit; -ENOMEM. limits may be NULL. */
int otlp_decode(struct buf *in, const struct otlp_limits *limits, struct batch **ret, struct err *e);
int otlp_decode_borrowed(const void *p, size_t n, const struct otlp_limits *limits, struct batch **ret, struct err *e);
int otlp_json_decode(struct buf *in, const struct otlp_limits *limits, struct batch **ret, struct err *e);
int otlp_json_decode_borrowed(const char *p, size_t n, const struct otlp_limits *limits, struct batch **ret,
                              struct err *e);
/* Makes b, decoded from a part of in, the owner of in's memory. */
void otlp_own(struct batch *b, struct buf *in);

/* --- encoding --- */
struct otlp_encode_options {
    bool references; /* attribute keys and string values of resources and scopes as references into the string table:
                        smaller, but Collectors before 0.163 lose them */
};

/* Appends one ExportProfilesServiceRequest (= ProfilesData) to out: fields in ascending order, as protoc writes them.
 * opts may be NULL. -E2BIG if out's limit is reached, -ENOMEM. */
int otlp_encode(const struct batch *b, const struct otlp_encode_options *opts, struct buf *out, struct err *e);
/* The same as JSON on one line, strings inline. */
int otlp_json_encode(const struct batch *b, struct buf *out, struct err *e);

#endif
