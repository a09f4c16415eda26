// SPDX-License-Identifier: Apache-2.0

// Decodes OTLP profiles with the Collector's own library and prints "FILE MB/s" per file, by CPU time of the process,
// garbage collection included. bench/bench_codec.sh runs it beside wick's decoder.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"
)

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func decode(data []byte, json bool) error {
	if json {
		_, err := (&pprofile.JSONUnmarshaler{}).UnmarshalProfiles(data)
		return err
	}
	return pprofileotlp.NewExportRequest().UnmarshalProto(data)
}

// Best of five rounds of at least 300 ms each.
func measure(data []byte, json bool) (float64, error) {
	best := 0.0
	for round := 0; round < 5; round++ {
		n, start := 0, cpu()
		for cpu()-start < 300*time.Millisecond {
			for i := 0; i < 5; i++ {
				if err := decode(data, json); err != nil {
					return 0, err
				}
				n++
			}
		}
		if rate := float64(n) * float64(len(data)) / 1e6 / (cpu() - start).Seconds(); rate > best {
			best = rate
		}
	}
	return best, nil
}

func main() {
	for _, path := range os.Args[1:] {
		data, err := os.ReadFile(path)
		if err == nil {
			var rate float64
			rate, err = measure(data, strings.HasSuffix(path, ".json"))
			fmt.Printf("%s %.1f\n", filepath.Base(path), rate)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, path, err)
			os.Exit(1)
		}
	}
}
