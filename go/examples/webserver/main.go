// SPDX-License-Identifier: Apache-2.0

// Command webserver is a program that knows nothing of wick: it imports net/http/pprof, as many introductions to profiling do.
// `wick serve --scrape http://localhost:8080` profiles it continuously.
package main

import (
	"log"
	"net/http"
	_ "net/http/pprof" // Import for side effects: registers HTTP handlers
	"time"
)

func main() {
	// Start a background goroutine to simulate work
	go func() {
		for {
			doWork()
			time.Sleep(100 * time.Millisecond)
		}
	}()

	// Start an HTTP server that also exposes pprof endpoints
	// http://localhost:8080/debug/pprof/
	log.Println("Starting server on :8080")
	log.Fatal(http.ListenAndServe(":8080", nil))
}

func doWork() {
	// Simulate some CPU-intensive work
	for i := 0; i < 1000000; i++ {
		_ = i * i
	}
	// Simulate some memory allocation
	_ = make([]byte, 1024)
}
