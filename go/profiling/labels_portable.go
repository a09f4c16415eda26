// SPDX-License-Identifier: Apache-2.0

//go:build wick_portable_labels

package profiling

import (
	"context"
	"runtime/pprof"
	"unsafe"
)

// Without access to a goroutine's labels, the end of a span always resets those of the goroutine that ends it, to those of the
// context; which goroutine that is cannot be checked.

func getLabels() unsafe.Pointer { return nil }

func setLabels(ctx context.Context, _ unsafe.Pointer) { pprof.SetGoroutineLabels(ctx) }
