// SPDX-License-Identifier: Apache-2.0

//go:build go1.19 && !wick_portable_labels

package profiling

import (
	"context"
	"unsafe"
)

// A goroutine's labels can be set but not read with runtime/pprof. These two are the functions that it has underneath; Go keeps
// them for packages that use them by linkname (go.dev/issue/67401: "Do not remove or change the type signature"). The build tag
// wick_portable_labels does without them.

//go:linkname runtimeGetLabels runtime/pprof.runtime_getProfLabel
func runtimeGetLabels() unsafe.Pointer

//go:linkname runtimeSetLabels runtime/pprof.runtime_setProfLabel
func runtimeSetLabels(labels unsafe.Pointer)

func getLabels() unsafe.Pointer { return runtimeGetLabels() }

// setLabels gives this goroutine the labels back.
func setLabels(_ context.Context, labels unsafe.Pointer) { runtimeSetLabels(labels) }
