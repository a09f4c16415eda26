// Writes profiles of every kind that Go's runtime makes into the directory given, as fuel for the tests: protobuf and
// the text formats of old (debug=1).
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"
)

var (
	sink [][]byte
	mu   sync.Mutex
)

//go:noinline
func burn(n int) (s int) {
	for i := 0; i < n; i++ {
		s += i * i % 7
	}
	return s
}

func nest(depth, n int) int {
	if depth == 0 {
		return burn(n)
	}
	return nest(depth-1, n) + 1
}

func work(d time.Duration) {
	var wg sync.WaitGroup
	for w := 0; w < 3; w++ {
		wg.Add(1)
		go pprof.Do(context.Background(), pprof.Labels("worker", fmt.Sprint(w), "kind", "<test & \"quotes\">"),
			func(context.Context) {
				defer wg.Done()
				for end := time.Now().Add(d); time.Now().Before(end); {
					nest(w*5, 200000)
					mu.Lock()
					sink = append(sink, make([]byte, 1<<(8+w*3)))
					if len(sink) > 300 {
						sink = sink[100:]
					}
					mu.Unlock()
				}
			})
	}
	wg.Wait()
}

func main() {
	dir := os.Args[1]
	runtime.MemProfileRate = 4096
	runtime.SetMutexProfileFraction(1)
	runtime.SetBlockProfileRate(1)
	var cpu bytes.Buffer
	if err := pprof.StartCPUProfile(&cpu); err != nil {
		log.Fatal(err)
	}
	work(700 * time.Millisecond)
	pprof.StopCPUProfile()
	write := func(name string, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			log.Fatal(err)
		}
	}
	write("cpu.pb.gz", cpu.Bytes())
	for _, name := range []string{"heap", "allocs", "goroutine", "threadcreate", "block", "mutex"} {
		for debug := 0; debug < 2; debug++ {
			var b bytes.Buffer
			if err := pprof.Lookup(name).WriteTo(&b, debug); err != nil {
				log.Fatal(err)
			}
			write(fmt.Sprintf("%s.%s", name, []string{"pb.gz", "txt"}[debug]), b.Bytes())
		}
	}
}
