/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol between a symbolizer process and its parent. Neither trusts the other: in both directions every length
 * is checked. Little endian; a message is u32 length of the rest, then:
 *
 *   request   u8 lines | u16 n path | u16 n build id | u32 n addresses | path | build id | u64 addresses[]
 *   answer    i32 code
 *     < 0       u16 n | error message
 *     0         u8 quality | u16 n | build id | u32 n strings | (u32 n | bytes)[] | u32 n addresses | u32 frames[]
 *               | u32 n frames | frame[]
 *   frame     u32 function | u32 system name | u32 file (numbers of strings) | i32 line | i32 column | i32 start line
 *             | u8 inlined
 */
#ifndef MODEL_SYMBOL_WIRE_H
#define MODEL_SYMBOL_WIRE_H

#include "base/buf.h"
#include "model/symbolizer.h"

enum {
    SYMBOL_WIRE_REQUEST_MAX = 64 << 20,
    SYMBOL_WIRE_ANSWER_MAX = 512 << 20,
    SYMBOL_WIRE_PREFIX = 4, /* the length prefix */
};

/* Appends a whole message. -E2BIG when it does not fit. */
int symbol_wire_put_request(struct buf *out, const struct symbol_request *q);
int symbol_wire_put_answer(struct buf *out, const struct symbol_answer *a);
int symbol_wire_put_error(struct buf *out, int code, const char *message);

/* Reads a message without its length. The request's strings point into s; its addresses are *ret_addresses, to be freed
 * with mem_free(). -EBADMSG when it is malformed. */
int symbol_wire_get_request(struct str s, struct symbol_request *ret, uint64_t **ret_addresses);
/* Decodes the answer, or the error code and message that were sent instead; -EBADMSG if it is malformed, or if its
 * number of addresses is not the requested one. */
int symbol_wire_get_answer(struct str s, uint32_t n_addresses, struct symbol_answer **ret, struct err *e);

#endif
