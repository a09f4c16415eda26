/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface for samples whose frames are not native, such as those of an interpreter or a GPU. It is meant for
 * extensions in the same source tree (the Python package, GPU profiling); it is not installed, and may change.
 *
 * Frames are interned once, by wick_ext_frame(), which may allocate. Its result is used like an address: an array of
 * frames may mix such numbers with native return addresses, leaf first; the address of an instruction that was
 * interrupted is given as the address plus 1. Samples are then taken without locks and
 * without allocation, so wick_ext_sample() and a walker may run in a signal handler.
 *
 *     uint64_t f[2] = {wick_ext_frame(&(struct wick_ext_frame){.function = "price", .file = "shop.py", .line = 7}), ...};
 *     struct wick_ext_sample s = WICK_EXT_SAMPLE_INIT;
 *     s.type = WICK_WALL; s.value = 10000000; s.count = 1; s.frames = f; s.n_frames = 2;
 *     wick_ext_sample(&s);
 *
 * Functions return WICK_OK or a WICK_E... code; only those that must not be called from signal handlers set
 * wick_last_error().
 */
#ifndef SDK_EXT_H
#define SDK_EXT_H

#include <stddef.h>
#include <stdint.h>

#include "wick.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct wick_ext_frame {
    const char *function; /* required */
    const char *file;     /* NULL if it has none */
    const char *kind;     /* profile.frame.type of OTLP: "cpython", ...; NULL: "native" */
    int line, start_line; /* 0 if not known */
};

/* The number of a frame, the same for the same content; 0 if there is no memory, or if no provider was ever created.
 * Strings are copied and kept until the process ends: intern only strings that repeat. Any thread, but not in a signal
 * handler. */
uint64_t wick_ext_frame(const struct wick_ext_frame *f);

struct wick_ext_sample {
    size_t size;            /* WICK_EXT_SAMPLE_INIT sets it */
    unsigned type;          /* WICK_CPU, WICK_WALL or WICK_LOCK; allocations have functions of their own */
    int64_t value;          /* nanoseconds */
    int64_t count;          /* number of events that the sample stands for */
    const uint64_t *frames; /* leaf first */
    uint32_t n_frames;
    const char *thread;      /* name of the thread that ran, for the label thread.name; NULL: none */
    const uint8_t *trace_id; /* 16 bytes, with span_id; NULL: the span and labels of the calling thread */
    const uint8_t *span_id;  /* 8 bytes */
    const uint8_t *labels;   /* further labels, as wick_ext_label() writes them */
    uint32_t labels_n;
};

#define WICK_EXT_SAMPLE_INIT                                         \
    {                                                                \
        sizeof(struct wick_ext_sample), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
    }

/* Adds one sample, of the calling thread or of another one that it observed. WICK_ESTATE if the type is off or sampling
 * is paused; WICK_ENOMEM if there was no room for it (it is counted as lost). Async-signal-safe on a thread that was
 * sampled before or called wick_ext_thread(). */
int wick_ext_sample(const struct wick_ext_sample *s);
/* Registers the calling thread; not in a signal handler. */
int wick_ext_thread(void);

/*
 * A helper is a thread of the extension that adds samples of what waits without a thread, such as tasks. It is left out of all
 * profiles, and its CPU time counts against the budget. WICK_ENOMEM if there are too many threads.
 */
int wick_ext_helper_begin(void);
void wick_ext_helper_end(void);
/* Whether a helper should wait for a moment before its next sample: those that it has added are still being read. */
int wick_ext_helper_full(void);
/* For a helper: nanoseconds until its next look, which grow when looks cost too much; 0: wall-clock time is not sampled now. */
int64_t wick_ext_helper_interval(void);

/* Publishes the span of the calling thread to readers outside the process (otel_thread_ctx_v1), in place of those that
 * wick_span_enter() published; NULL: it has none. For runtimes that know the current span at every moment. */
void wick_ext_span(const uint8_t trace_id[16], const uint8_t span_id[8]);

/*
 * For the samples that wick takes itself: called with the n native frames that were found, as above, leaf first. The walker may
 * replace, insert and remove frames, up to max, set the span, and add labels.
 *
 * tid 0: the sample is of the calling thread, possibly in its signal handler: the walker must be async-signal-safe.
 * Otherwise it is of thread tid, which sleeps, and the caller is wick's own thread. Should the thread wake up meanwhile,
 * the sample is discarded; until then its memory may change or disappear, so it must be read through the kernel.
 */
struct wick_ext_stack {
    uint64_t *frames;
    uint32_t n, max;
    int tid;
    int cut;  /* the frames do not reach the root; a walker that completes the stack sets it to 0 */
    int span; /* 1 if the walker set trace_id and span_id */
    uint8_t trace_id[16], span_id[8];
    uint32_t labels_n;
    uint8_t labels[128]; /* see wick_ext_label() */
};

typedef void wick_ext_walker(struct wick_ext_stack *s);
/* NULL removes the walker, which may still run for a moment on other threads. */
void wick_ext_set_walker(wick_ext_walker *walker);

/* The number of a label's key, -1 if there are too many keys. Not in a signal handler. */
int wick_ext_label_key(const char *name);

/* Adds a label; a value that does not fit is left out. For walkers. */
static inline void wick_ext_label(struct wick_ext_stack *s, int key, const char *value, uint32_t n)
{
    if (key < 0 || key > 255 || n > 127 || s->labels_n + n + 2 > sizeof s->labels)
        return;
    s->labels[s->labels_n] = (uint8_t) key;
    s->labels[s->labels_n + 1] = (uint8_t) n;
    __builtin_memcpy(s->labels + s->labels_n + 2, value, n);
    s->labels_n += n + 2;
}

/*
 * Frames that have no name yet: a walker that may not intern frames, because it runs in a signal handler, stores
 * WICK_EXT_LATE | number, with a number below 2^48 that means the same until the process ends. The namer is called for
 * it later, on wick's own thread, and returns 1 if it filled in *ret. Its strings must stay valid until the next call.
 */
#define WICK_EXT_LATE (0xe7e1ull << 48)
typedef int wick_ext_namer(uint64_t number, struct wick_ext_frame *ret);
void wick_ext_set_namer(wick_ext_namer *namer);

/* For an allocator that wick cannot hook. wick_ext_alloc() decides itself whether this block is sampled; every block
 * that was passed to it must be passed to wick_ext_free() before it is freed. Not in a signal handler. */
void wick_ext_alloc(void *p, size_t size);
void wick_ext_free(void *p);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
