// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package profiling

import "bytes"

// startAtRate needs a thread with a private table of file descriptors: see rate_linux.go.
func startAtRate(*bytes.Buffer, int) error { return errRate }
