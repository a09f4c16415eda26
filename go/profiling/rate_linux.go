// SPDX-License-Identifier: Apache-2.0

package profiling

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"syscall"
)

// startAtRate starts the CPU profile with another rate than Go's 100 Hz. runtime.SetCPUProfileRate before
// pprof.StartCPUProfile is the only way that Go has; the latter then sets 100 again, which the runtime refuses with a line on
// file descriptor 2. The line is of no use to the user, so both calls are made on a thread with a private table of file descriptors
// in which 2 is /dev/null. Other threads, and what they print, are not affected; the thread ends with its goroutine.
//
// It fails with errRate where a private table is not allowed (unshare, under the default seccomp profile of Docker).
func startAtRate(w *bytes.Buffer, rate int) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if syscall.Gettid() != os.Getpid() {
			done <- startMuted(w, rate)
			return // still locked, so that the thread ends
		}
		// The main thread never ends. While it is locked, another goroutine runs on another thread.
		inner := make(chan error, 1)
		go func() {
			runtime.LockOSThread()
			inner <- startMuted(w, rate)
		}()
		done <- <-inner
		runtime.UnlockOSThread()
	}()
	return <-done
}

func startMuted(w *bytes.Buffer, rate int) error {
	if err := syscall.Unshare(syscall.CLONE_FILES); err != nil {
		return fmt.Errorf("%w: %v", errRate, err)
	}
	null, err := syscall.Open("/dev/null", syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err == nil {
		err = syscall.Dup3(null, 2, syscall.O_CLOEXEC)
	}
	if err != nil {
		return fmt.Errorf("%w: %v", errRate, err)
	}
	runtime.SetCPUProfileRate(rate)
	return pprof.StartCPUProfile(w)
}
