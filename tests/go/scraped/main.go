// SPDX-License-Identifier: Apache-2.0

// A program that serves /debug/pprof/ and knows nothing of wick: of 8 parts of its CPU time, 7 are in hot and 1 is in cold.
// It prints its address, and ends with its stdin.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	_ "net/http/pprof"
	"os"
	"runtime"
	"sync"
	"time"
)

//go:noinline
func spin(n int) (x uint64) {
	x = 88172645463325252
	for i := 0; i < n; i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

//go:noinline
func hot() uint64 { return spin(700_000) + 1 }

//go:noinline
func cold() uint64 { return spin(100_000) + 2 }

var (
	kept []byte
	mu   sync.Mutex
)

//go:noinline
func allocate() { kept = make([]byte, 100_000) }

//go:noinline
func contend() {
	mu.Lock()
	time.Sleep(time.Millisecond)
	mu.Unlock()
}

func main() {
	runtime.SetMutexProfileFraction(1)
	runtime.SetBlockProfileRate(1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(l.Addr())
	go http.Serve(l, nil)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for i := 0; i < 2; i++ {
		go func() {
			for {
				contend()
			}
		}()
	}
	for sum := uint64(0); ; time.Sleep(time.Millisecond) {
		for i := 0; i < 5; i++ {
			sum += hot() + cold()
		}
		allocate()
	}
}
