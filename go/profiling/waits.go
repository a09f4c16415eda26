// SPDX-License-Identifier: Apache-2.0

package profiling

import "strings"

// Waits that say nothing about the program are left out of mutex and block profiles: those of profilers, and those of goroutines
// of the runtime and of the standard library that wait until there is work. One such goroutine waits a second per second.

func isOfWaits(profile string) bool { return profile == "mutex" || profile == "block" }

// isOfProgram reports whether a wait is the program's. stack: function names, the leaf first.
func isOfProgram(stack []string) bool {
	inRuntime := true
	for _, f := range stack {
		if isOfProfiler(f) {
			return false
		}
		inRuntime = inRuntime && strings.HasPrefix(f, "runtime.")
	}
	if len(stack) == 0 {
		return true
	}
	switch root := stack[len(stack)-1]; root {
	case "net/http.(*persistConn).writeLoop", // a connection without a request
		"database/sql.(*DB).connectionOpener",
		"os/signal.loop":
		return false
	default: // contention of the runtime's own locks stays
		return !inRuntime || strings.HasPrefix(root, "runtime._Lost") || strings.HasPrefix(stack[0], "runtime.unlock")
	}
}

// ofProfilers are beginnings of the names of functions that belong to a profiler and never call code of the program.
var ofProfilers = [...]string{
	"wick.dev/go/profiling.(*", "wick.dev/go/profiling.serve", "wick.dev/go/internal/", "wick.dev/go/otlpprofile",
	"net/http/pprof.", "runtime/pprof.StartCPUProfile", "runtime/pprof.StopCPUProfile", "runtime/pprof.profileWriter",
	"runtime/pprof.(*Profile)",
}

func isOfProfiler(f string) bool {
	for _, prefix := range ofProfilers {
		if strings.HasPrefix(f, prefix) {
			return true
		}
	}
	return false
}
