// SPDX-License-Identifier: Apache-2.0

// Command pprof2otlp converts a pprof file to one OTLP request, as the provider does, for the tests that compare it with
// `wick convert`. -links turns the labels trace_id and span_id into links.
package main

import (
	"flag"
	"fmt"
	"os"

	"wick.dev/go/internal/otlp"
	"wick.dev/go/internal/pprofile"
)

func run() error {
	links := flag.Bool("links", false, "labels trace_id and span_id become links")
	flag.Parse()
	for i := 0; i+1 < flag.NArg(); i += 2 {
		b, err := os.ReadFile(flag.Arg(i))
		if err != nil {
			return err
		}
		p, err := pprofile.Decode(b)
		if err != nil {
			return fmt.Errorf("%s: %w", flag.Arg(i), err)
		}
		r := otlp.NewRequest(nil, otlp.Options{NoLinks: !*links, NoIDs: true})
		r.Add(p, otlp.Scope{})
		if err := os.WriteFile(flag.Arg(i+1), r.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "pprof2otlp:", err)
		os.Exit(1)
	}
}
