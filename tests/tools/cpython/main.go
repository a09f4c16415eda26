// SPDX-License-Identifier: Apache-2.0

// Unpacks the CPython that a Go module carries (python-build-standalone's: link-time optimised, with tail calls, stripped)
// into a folder: a version that distributions do not have yet, for the tests of the agent.
package main

import (
	"fmt"
	"os"

	"github.com/kluctl/go-embed-python/python"
)

func main() {
	if _, err := python.NewEmbeddedPythonWithTmpDir(os.Args[1], false); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
