// SPDX-License-Identifier: Apache-2.0

// Command overhead does a fixed amount of work and prints the CPU time that the process needed for it, the
// memory of the runtime, and the CPU time of one export: `none` without a profile,
// `go` with Go's own CPU profile (which is what any profiler of a Go program has to start), `wick` with a Provider that sends to
// -endpoint every -interval. bench/bench_go.sh runs them in pairs.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime"
	"runtime/pprof"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"

	"wick.dev/go/otlpprofilegrpc"
	"wick.dev/go/profiling"
)

// work builds, sorts and forgets words: stacks of some depth, allocations, a map.
func work(seed uint64, rounds int) (n int) {
	for r := 0; r < rounds; r++ {
		words := make([]string, 0, 300)
		count := map[string]int{}
		for i := 0; i < 300; i++ {
			seed ^= seed << 13
			seed ^= seed >> 7
			seed ^= seed << 17
			w := fmt.Sprintf("%x", seed%5000)
			words = append(words, strings.ToUpper(w))
			count[w]++
		}
		sort.Strings(words)
		n += len(count) + deep(30, words)
	}
	return n
}

//go:noinline
func deep(n int, words []string) int {
	if n == 0 {
		return len(strings.Join(words, ","))
	}
	return deep(n-1, words) + 1
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func main() {
	mode := flag.String("mode", "none", "none, go or wick")
	endpoint := flag.String("endpoint", "", "wick: where to send")
	interval := flag.Duration("interval", 2*time.Second, "wick: between exports; go: between profiles")
	rounds := flag.Int("rounds", 20000, "work per goroutine")
	flag.Parse()
	var provider *profiling.Provider
	switch *mode {
	case "go":
		f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		if err == nil {
			err = pprof.StartCPUProfile(f)
		}
		if err != nil {
			log.Fatal(err)
		}
	case "wick":
		exporter, err := otlpprofilegrpc.New(context.Background(), otlpprofilegrpc.WithEndpoint(*endpoint), otlpprofilegrpc.WithInsecure())
		if err != nil {
			log.Fatal(err)
		}
		provider = profiling.NewProvider(profiling.WithExporter(exporter), profiling.WithExportInterval(*interval))
	}
	var group sync.WaitGroup
	for i := 0; i < 2; i++ {
		group.Add(1)
		go func(seed uint64) {
			work(seed, *rounds)
			group.Done()
		}(uint64(i)*977 + 88172645463325252)
	}
	group.Wait()
	total := cpuTime()
	var first, direct time.Duration // of the export after the work, with its samples; of one export, while nothing else runs
	if provider != nil {
		const exports = 20
		provider.ForceFlush(context.Background())
		first = cpuTime() - total
		for i := 0; i < exports; i++ {
			provider.ForceFlush(context.Background())
		}
		direct = (cpuTime() - total - first) / exports
		provider.Shutdown(context.Background())
	} else if *mode == "go" {
		pprof.StopCPUProfile()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Printf("%d %d %d %d\n", total.Nanoseconds(), m.Sys, direct.Nanoseconds(), first.Nanoseconds())
}
