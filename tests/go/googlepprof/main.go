// SPDX-License-Identifier: Apache-2.0

// google/pprof as it comes, with llvm-symbolizer, nm and objdump: the oracle for native binaries (`go tool pprof` knows
// Go binaries alone). The tests build it against the copy of the library that the Go toolchain has.
package main

import (
	"fmt"
	"os"

	"github.com/google/pprof/driver"
)

func main() {
	if err := driver.PProf(&driver.Options{}); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", "pprof", err)
		os.Exit(2)
	}
}
