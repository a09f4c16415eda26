/* SPDX-License-Identifier: Apache-2.0 */
/* File paths and times as Go prints them, where pprof's output depends on it and libc differs. */
#ifndef REPORT_GOPATH_H
#define REPORT_GOPATH_H

#include "base/buf.h"
#include "base/str.h"

/* filepath.Clean: no "//", "/./", "x/.."; "" gives ".". The result is in out, which is emptied first. */
void gopath_clean(struct buf *out, struct str path);
/* True when gopath_clean() would not change the path (the usual case, in which a copy is avoided). */
bool gopath_is_clean(struct str path);
/* filepath.Base: the last element without trailing slashes; "." for "", "/" for all slashes. */
struct str gopath_base(struct str path);
/* filepath.Dir of a path, cleaned, into out. */
void gopath_dir(struct buf *out, struct str path);
/* filepath.Join of a and b, cleaned, into out; empty parts are left out. */
void gopath_join(struct buf *out, struct str a, struct str b);

/* time.Duration.String(): "1m30.5s", "10ms", "0s". */
void gotime_duration(struct buf *out, int64_t ns);
/* time.Time in local time, "2006-01-02 15:04:05 MST", or as %v prints it, with fraction and offset. */
void gotime_local(struct buf *out, int64_t unix_ns, bool full);

#endif
