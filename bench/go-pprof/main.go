// The Go side of bench_pprof_codec: github.com/google/pprof/profile, one processor, garbage collection counted.
// go-pprof FILE... prints "NAME PARSE PARSE-GZ WRITE" per file, MB/s of inflated input.
package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/pprof/profile"
)

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		log.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// best CPU time of one call, over rounds of at least 150 ms each.
func best(f func()) time.Duration {
	best := time.Hour
	for round := 0; round < 7; round++ {
		start, n := cpu(), 0
		for n == 0 || cpu()-start < 150*time.Millisecond {
			f()
			n++
		}
		if d := (cpu() - start) / time.Duration(n); d < best {
			best = d
		}
	}
	return best
}

func main() {
	for _, path := range os.Args[1:] {
		data, err := os.ReadFile(path)
		if err != nil {
			log.Fatal(err)
		}
		if data[0] == 0x1f && data[1] == 0x8b {
			z, err := gzip.NewReader(bytes.NewReader(data))
			if err != nil {
				log.Fatal(err)
			}
			if data, err = io.ReadAll(z); err != nil {
				log.Fatal(err)
			}
		}
		var gz bytes.Buffer
		w := gzip.NewWriter(&gz)
		w.Write(data)
		w.Close()
		p, err := profile.ParseData(data)
		if err != nil {
			log.Fatal(err)
		}
		rate := func(d time.Duration) float64 { return float64(len(data)) / d.Seconds() / 1e6 }
		parse := best(func() { profile.ParseData(data) })
		inflate := best(func() { profile.Parse(bytes.NewReader(gz.Bytes())) })
		write := best(func() { p.WriteUncompressed(io.Discard) })
		fmt.Printf("%s %.1f %.1f %.1f\n", filepath.Base(path), rate(parse), rate(inflate), rate(write))
	}
}
