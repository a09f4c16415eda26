/* SPDX-License-Identifier: Apache-2.0 */
/* Spans and labels of threads, and the published process context (span.h). It works without a provider, because readers
 * outside the process may be the only ones. */
#include "sdk/span.h"

#include <errno.h>
#include <linux/memfd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "model/semconv.h"
#include "sdk/core.h"
#include "sdk/ext.h"
#include "sdk/last_error.h"
#include "wick.h"

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

enum { DEPTH = 32, KEY_MAX = 63, VALUE_MAX = 127, LABELS_MAX = 8, CONTEXT_SIZE = 65536 };

struct thread_state {
    struct span_record record;
    uint32_t depth; /* may exceed DEPTH: those spans are only counted */
    struct {
        uint8_t trace_id[16], span_id[8];
    } stack[DEPTH];
};

__attribute__((visibility("default"))) __thread struct span_record *otel_thread_ctx_v1;
static __thread struct thread_state *mine;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool have_key;
static char keys[SPAN_KEYS_MAX][KEY_MAX + 1];
static _Atomic uint32_t n_keys;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the keys and OTEL_CTX */

struct process_header {
    char signature[8];
    uint32_t version, payload_size;
    _Atomic uint64_t published_ns; /* 0 while it is being changed */
    uint64_t payload;
};

static struct {
    struct process_header *map;
    unsigned half;
    char name[256], version[256], types[64];
    char number[17]; /* in hex; empty: not drawn yet */
} context;

/* --- threads --- */
static void on_thread_end(void *p)
{
    struct thread_state *t = p;

    if (otel_thread_ctx_v1 == &t->record)
        otel_thread_ctx_v1 = NULL;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    mine = NULL;
    mem_free(t);
}

static void make_key(void)
{
    have_key = pthread_key_create(&key, on_thread_end) == 0;
}

/* The background thread attributes waiting to a copy (handler_keep_context()). */
static void keep_copy(const struct thread_state *t)
{
    if (!thr_self || otel_thread_ctx_v1 != &t->record)
        return;
    handler_keep_context(thr_self);
    atomic_store_explicit(&thr_self->context_kept, true, memory_order_relaxed);
}

static struct thread_state *state(void)
{
    struct thread_state *t = mine;

    if (t)
        return t;
    pthread_once(&once, make_key);
    t = mem_zalloc(sizeof *t);
    if (!t)
        return NULL;
    if (have_key)
        pthread_setspecific(key, t);
    if (!thr_self && atomic_load(&core.running))
        thr_adopt();
    return mine = t;
}

int64_t span_context_distance(void)
{
    return (int64_t) ((uintptr_t) &otel_thread_ctx_v1 - (uintptr_t) __builtin_thread_pointer());
}

/* Nothing is published while another SDK's record is in place: samples then carry its spans. */
static bool owns_context(struct thread_state *t)
{
    if (!otel_thread_ctx_v1)
        otel_thread_ctx_v1 = &t->record;
    return otel_thread_ctx_v1 == &t->record;
}

static void set_span(struct thread_state *t, const uint8_t *trace_id, const uint8_t *span_id)
{
    struct span_record *r = &t->record;

    r->valid = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (span_id) {
        memcpy(r->trace_id, trace_id, sizeof r->trace_id);
        memcpy(r->span_id, span_id, sizeof r->span_id);
    } else {
        memset(r->trace_id, 0, sizeof r->trace_id);
        memset(r->span_id, 0, sizeof r->span_id);
    }
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    r->valid = span_id || r->attrs_data_size;
    keep_copy(t);
}

void wick_span_enter(const uint8_t trace_id[16], const uint8_t span_id[8])
{
    struct thread_state *t = state();

    if (!t)
        return;
    if (t->depth < DEPTH) {
        memcpy(t->stack[t->depth].trace_id, trace_id, 16);
        memcpy(t->stack[t->depth].span_id, span_id, 8);
    }
    t->depth++;
    if (owns_context(t))
        set_span(t, trace_id, span_id);
}

void wick_span_leave(void)
{
    struct thread_state *t = mine;

    if (!t || !t->depth)
        return;
    t->depth--;
    if (t->depth > DEPTH || !owns_context(t))
        return;
    if (t->depth)
        set_span(t, t->stack[t->depth - 1].trace_id, t->stack[t->depth - 1].span_id);
    else
        set_span(t, NULL, NULL);
}

void wick_ext_span(const uint8_t trace_id[16], const uint8_t span_id[8])
{
    struct thread_state *t = span_id ? state() : mine;

    if (!t || (!span_id && !t->depth))
        return;
    t->depth = span_id ? 1 : 0;
    if (span_id) {
        memcpy(t->stack[0].trace_id, trace_id, 16);
        memcpy(t->stack[0].span_id, span_id, 8);
    }
    if (owns_context(t))
        set_span(t, trace_id, span_id);
}

/* --- labels --- */
static int publish_locked(void);

static int key_index(const char *name)
{
    uint32_t n = atomic_load_explicit(&n_keys, memory_order_acquire), i;

    for (i = 0; i < n; i++)
        if (strcmp(keys[i], name) == 0)
            return (int) i;
    pthread_mutex_lock(&lock);
    n = atomic_load(&n_keys);
    for (; i < n && strcmp(keys[i], name) != 0; i++)
        ;
    if (i == n && n < SPAN_KEYS_MAX) {
        memcpy(keys[n], name, strlen(name) + 1);
        atomic_store_explicit(&n_keys, n + 1, memory_order_release);
        if (context.map)
            publish_locked(); /* so that readers learn the new key */
    }
    pthread_mutex_unlock(&lock);
    return i < SPAN_KEYS_MAX ? (int) i : -1;
}

int span_key_number(const char *name)
{
    return key_index(name);
}

struct str span_key(uint8_t index)
{
    return index < atomic_load_explicit(&n_keys, memory_order_acquire) ? str_from(keys[index]) : (struct str){0};
}

/* Removes the entry of a key from the list. Returns how many entries are left. */
static unsigned remove_label(struct span_record *r, uint8_t index)
{
    unsigned left = 0;

    for (uint32_t i = 0; i + 2 <= r->attrs_data_size;) {
        uint32_t n = 2u + r->attrs_data[i + 1];

        if (r->attrs_data[i] == index) {
            memmove(r->attrs_data + i, r->attrs_data + i + n, r->attrs_data_size - i - n);
            r->attrs_data_size = (uint16_t) (r->attrs_data_size - n);
            continue;
        }
        left++;
        i += n;
    }
    return left;
}

int wick_label_set(const char *name, const char *value)
{
    size_t n = name ? strlen(name) : 0, vn = value ? strlen(value) : 0;
    struct thread_state *t;
    struct span_record *r;
    int index, result = WICK_OK;

    if (n == 0 || n > KEY_MAX || vn > VALUE_MAX)
        return last_error_set(WICK_EINVAL, "the key of a label must have 1 to 63 bytes and its value at most 127");
    t = state();
    index = t ? key_index(name) : -1;
    if (index < 0)
        return last_error_set(WICK_ENOMEM, "no space for label '%s'", name);
    r = &t->record;
    owns_context(t);
    r->valid = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (remove_label(r, (uint8_t) index) >= LABELS_MAX || r->attrs_data_size + vn + 2 > SPAN_ATTRS_MAX) {
        result =
            value ? last_error_set(WICK_ENOMEM, "a thread can have at most 8 labels of 612 bytes in total") : WICK_OK;
    } else if (value) {
        uint8_t *p = r->attrs_data + r->attrs_data_size;

        p[0] = (uint8_t) index;
        p[1] = (uint8_t) vn;
        memcpy(p + 2, value, vn);
        r->attrs_data_size = (uint16_t) (r->attrs_data_size + vn + 2);
    }
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    r->valid = t->depth || r->attrs_data_size;
    keep_copy(t);
    return result;
}

void wick_label_clear(void)
{
    struct thread_state *t = mine;

    if (!t)
        return;
    t->record.valid = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    t->record.attrs_data_size = 0;
    t->record.valid = t->depth > 0;
    keep_copy(t);
}

/* --- OTEL_CTX --- */
static void put_bytes(struct buf *b, unsigned field, const void *p, size_t n)
{
    buf_putc(b, (char) (field << 3 | 2));
    for (size_t v = n;; v >>= 7) {
        buf_putc(b, (char) (v > 127 ? (v & 127) | 128 : v));
        if (v <= 127)
            break;
    }
    buf_put(b, p, n);
}

/* KeyValue { key = 1; AnyValue value = 2 { string_value = 1 } } as field `field` of out. */
static void put_attribute(struct buf *out, unsigned field, const char *name, const char *value)
{
    _cleanup_(buf_done) struct buf any = BUF_INIT, kv = BUF_INIT;

    put_bytes(&any, 1, value, strlen(value));
    put_bytes(&kv, 1, name, strlen(name));
    put_bytes(&kv, 2, any.p, any.n);
    put_bytes(out, field, kv.p, kv.n);
}

static void put_key_map(struct buf *out)
{
    _cleanup_(buf_done) struct buf list = BUF_INIT, any = BUF_INIT, kv = BUF_INIT;

    for (uint32_t i = 0, n = atomic_load(&n_keys); i < n; i++) {
        _cleanup_(buf_done) struct buf one = BUF_INIT;

        put_bytes(&one, 1, keys[i], strlen(keys[i]));
        put_bytes(&list, 1, one.p, one.n);
    }
    put_bytes(&any, 5, list.p, list.n);
    put_bytes(&kv, 1, "threadlocal.attribute_key_map", 29);
    put_bytes(&kv, 2, any.p, any.n);
    put_bytes(out, 2, kv.p, kv.n);
}

static struct process_header *map_context(void)
{
    int fd = memfd_create("OTEL_CTX", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    void *p = MAP_FAILED;

    if (fd < 0)
        fd = memfd_create("OTEL_CTX", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && ftruncate(fd, CONTEXT_SIZE) == 0)
        p = mmap(NULL, CONTEXT_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (fd >= 0)
        close(fd);
    if (p == MAP_FAILED)
        p = mmap(NULL, CONTEXT_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    madvise(p, CONTEXT_SIZE, MADV_DONTFORK);
    return p;
}

static const char *number_locked(void)
{
    uint64_t number = 0;

    if (!context.number[0] && getrandom(&number, sizeof number, GRND_NONBLOCK) == sizeof number)
        snprintf(context.number, sizeof context.number, "%016llx", (unsigned long long) number);
    return context.number;
}

static int publish_locked(void)
{
    _cleanup_(buf_done) struct buf resource = BUF_INIT, all = BUF_INIT;
    struct process_header *h = context.map;
    uint64_t last = h ? atomic_load(&h->published_ns) : 0, now;
    struct timespec ts;
    char *to;

    put_attribute(&resource, 1, SEMCONV_SERVICE_NAME, context.name);
    if (context.version[0])
        put_attribute(&resource, 1, SEMCONV_SERVICE_VERSION, context.version);
    put_bytes(&all, 1, resource.p, resource.n);
    put_attribute(&all, 2, "threadlocal.schema_version", "tlsdesc_v1_dev");
    put_key_map(&all);
    if (context.types[0])
        put_attribute(&all, 2, SEMCONV_WICK_PROFILE_TYPES, context.types);
    if (number_locked()[0])
        put_attribute(&all, 2, SEMCONV_WICK_PROCESS, context.number);
    if (buf_error(&all) || buf_error(&resource) || all.n > CONTEXT_SIZE / 2 - sizeof *h)
        return -ENOMEM;
    if (!h && !(h = context.map = map_context()))
        return -ENOMEM;
    context.half ^= 1; /* a reader of the old payload is not disturbed */
    to = (char *) h + (context.half ? CONTEXT_SIZE / 2 : sizeof *h);
    memcpy(to, all.p, all.n);
    atomic_store(&h->published_ns, 0);
    atomic_thread_fence(memory_order_seq_cst);
    memcpy(h->signature, "OTEL_CTX", 8);
    h->version = 2;
    h->payload_size = (uint32_t) all.n;
    h->payload = (uint64_t) (uintptr_t) to;
    atomic_thread_fence(memory_order_seq_cst);
    clock_gettime(CLOCK_BOOTTIME, &ts);
    now = (uint64_t) ts.tv_sec * 1000000000ull + (uint64_t) ts.tv_nsec;
    atomic_store(&h->published_ns, MAX(now, last + 1));
    prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, h, CONTEXT_SIZE, "OTEL_CTX"); /* an error is ignored */
    return 0;
}

static void copy_cut(char *to, size_t size, struct str s)
{
    size_t n = MIN(size - 1, (size_t) s.n);

    memcpy(to, s.p ? s.p : "", n);
    to[n] = 0;
}

int span_publish_process(struct str service_name, struct str service_version, const char *types)
{
    int r;

    pthread_mutex_lock(&lock);
    copy_cut(context.name, sizeof context.name, service_name);
    copy_cut(context.version, sizeof context.version, service_version);
    copy_cut(context.types, sizeof context.types, str_from(types));
    r = publish_locked();
    pthread_mutex_unlock(&lock);
    return r;
}

const char *span_process_number(void)
{
    pthread_mutex_lock(&lock);
    number_locked();
    pthread_mutex_unlock(&lock);
    return context.number;
}

void span_reset_child(void)
{
    bool was = context.map != NULL;

    pthread_mutex_init(&lock, NULL);
    context.number[0] = 0;
    context.map = NULL; /* MADV_DONTFORK: the child does not have it */
    if (was)
        publish_locked();
}
