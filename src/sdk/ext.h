/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way in for samples whose frames are not native: an interpreter's, a GPU's. For extensions that live in the same tree
 * (the Python package, GPU profiling); not installed, and without a promise to stay as it is.
 *
 * Frames are interned once, by wick_ext_frame(), which may allocate. What it returns stands for an address: an array of
 * frames may mix it with native return addresses, leaf first. Samples are then taken without locks and allocation, so
 * wick_ext_sample() and a walker may run in a signal handler.
 *
 *     uint64_t f[2] = {wick_ext_frame(&(struct wick_ext_frame){.function = "price", .file = "shop.py", .line = 7}), ...};
 *     struct wick_ext_sample s = WICK_EXT_SAMPLE_INIT;
 *     s.type = WICK_WALL; s.value = 10000000; s.count = 1; s.frames = f; s.n_frames = 2;
 *     wick_ext_sample(&s);
 *
 * Functions return WICK_OK or a WICK_E... code; only those that are not for signal handlers set wick_last_error().
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
    const char *file;     /* NULL when it has none */
    const char *kind;     /* profile.frame.type of OTLP: "cpython", ...; NULL: "native" */
    int line, start_line; /* 0 when not known */
};

/* The number of a frame, the same for the same content; 0 when there is no memory, or no provider was ever made. Strings
 * are copied and kept until the process ends: intern what repeats, not what is unique. Any thread, no signal handler. */
uint64_t wick_ext_frame(const struct wick_ext_frame *f);

struct wick_ext_sample {
    size_t size;            /* WICK_EXT_SAMPLE_INIT sets it */
    unsigned type;          /* WICK_CPU, WICK_WALL or WICK_LOCK; allocations have functions of their own */
    int64_t value;          /* nanoseconds */
    int64_t count;          /* how many events they stand for */
    const uint64_t *frames; /* leaf first */
    uint32_t n_frames;
    const char *thread;      /* name of the thread that ran, for the label thread.name; NULL: none */
    const uint8_t *trace_id; /* 16 bytes, with span_id; NULL: the span and labels of the calling thread */
    const uint8_t *span_id;  /* 8 bytes */
};

#define WICK_EXT_SAMPLE_INIT                                   \
    {                                                          \
        sizeof(struct wick_ext_sample), 0, 0, 0, 0, 0, 0, 0, 0 \
    }

/* One sample, of the calling thread or of another one that it looked at. WICK_ESTATE when the type is not on, or sampling is
 * paused; WICK_ENOMEM when there was no room for it (it is counted as lost). Async-signal-safe, on a thread that was
 * sampled before or called wick_ext_thread(). */
int wick_ext_sample(const struct wick_ext_sample *s);
/* Makes the calling thread known; not in a signal handler. */
int wick_ext_thread(void);

/*
 * For the samples that wick takes itself, of the CPU time and at allocations: called on the sampled thread, in the signal
 * handler too, with the n native frames that were found, leaf first. May replace, insert and remove frames, at most max; the
 * new number. Async-signal-safe; NULL removes it, and it may still run for a moment on other threads.
 */
typedef uint32_t wick_ext_walker(uint64_t *frames, uint32_t n, uint32_t max);
void wick_ext_set_walker(wick_ext_walker *walker);

/* Of an allocator that wick does not see. wick_ext_alloc() decides by itself whether this one is sampled; every block that
 * was passed to it is passed to wick_ext_free() before it is freed. Not in a signal handler. */
void wick_ext_alloc(void *p, size_t size);
void wick_ext_free(void *p);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
