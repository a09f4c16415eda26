/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes and encodes pprof's profile.proto. The parts of a file and their place in the batch (one resource, one scope,
 * one profile with as many types as the file has sample types):
 *
 *   sample_type[]            profile.types; a file with neither types nor samples gets one type of empty names
 *   sample[]                 batch.samples in file order, not merged; stack i + 1 belongs to sample i
 *   sample.label             sample attributes in file order: string -> VALUE_STR, number -> VALUE_INT with its unit
 *   mapping, location, function, string_table
 *                            the dictionary's tables in file order, entry i of the file at index i + 1 (strings: at i);
 *                            ids of the file that are not 1, 2, 3... are in batch.mapping_ids etc.
 *   mapping.build_id         process.executable.build_id.go when it has a '/', as Go's have, else .gnu
 *   mapping.has_*            pprof.mapping.has_* = true, only where true
 *   location.is_folded       pprof.location.is_folded = true, only where true
 *   comment[]                pprof.profile.comment, an array of strings
 *   doc_url, drop_frames, keep_frames
 *                            pprof.profile.*, only where not empty
 *   default_sample_type      profile.default_type; pprof.scope.default_sample_type on the profile if it names no type
 *   time, duration, period   the profile's fields of these names
 *
 * Nothing of a valid file is lost except unknown fields, labels with neither text, number nor unit, and the order
 * between fields. Files that pprof refuses are refused here, with the byte offset (in the inflated file) and the field.
 */
#ifndef CODEC_PPROF_H
#define CODEC_PPROF_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "model/batch.h"

struct pprof_limits {
    size_t inflated; /* bytes of the file after decompression; 0 = PPROF_INFLATED_MAX */
    size_t memory;   /* bytes of the decoded tables; 0 = 1 MiB + PPROF_MEMORY_TIMES the file's inflated bytes */
};

/* A sample of one frame may take 6 bytes in a file and 52 bytes in tables. */
enum { PPROF_INFLATED_MAX = 64 << 20, PPROF_MEMORY_TIMES = 10 };

/* Decodes a protobuf profile, compressed with gzip or zstd or plain. On success the batch owns the bytes of in, and in
 * is empty; on failure in holds the inflated bytes. -EFBIG over a limit, -ENODATA if empty, -EBADMSG if malformed: not
 * protobuf or not a profile; -EINVAL if well formed but contradictory (an unknown or repeated id, a wrong number of
 * values). */
int pprof_decode(struct buf *in, const struct pprof_limits *limits, struct batch **ret, struct err *e);

/* Appends profile p of b as uncompressed profile.proto, in the order and with the string table that pprof itself would
 * write. Only entries that p uses are written, unless b has no other profile: then the whole dictionary is. Links and
 * resource attributes are not written: convert_to_single() turns them into labels first. */
int pprof_encode(const struct batch *b, const struct profile *p, struct buf *out, struct err *e);
/* The same with one more comment, if it is not empty. */
int pprof_encode_with(const struct batch *b, const struct profile *p, struct str comment, struct buf *out,
                      struct err *e);

#endif
