// SPDX-License-Identifier: Apache-2.0

// Reads names, one a line, and writes what google/pprof's demangling library makes of each: the oracle for
// src/elf/demangle*.c. The argument is the mode: simple, templates or full.
package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/ianlancetaylor/demangle"
)

func one(name string, opts []demangle.Option) (out string) {
	defer func() {
		if recover() != nil {
			out = name
		}
	}()
	return demangle.Filter(name, opts...)
}

func main() {
	opts := map[string][]demangle.Option{
		"simple":    {demangle.NoParams, demangle.NoEnclosingParams, demangle.NoTemplateParams},
		"templates": {demangle.NoParams, demangle.NoEnclosingParams},
		"full":      {demangle.NoClones},
		"clones":    {},
	}[os.Args[1]]
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<20), 1<<26)
	w := bufio.NewWriter(os.Stdout)
	defer w.Flush()
	for in.Scan() {
		fmt.Fprintln(w, one(in.Text(), opts))
	}
}
