// SPDX-License-Identifier: Apache-2.0

// A service that prices orders, with the standard library alone: it sends what Go's own profiler sees. The module wick.dev/go
// (docs/go.md) has spans, memory and locks as well.
//
//	WICK_URL=http://localhost:4040 go run checkout.go
package main

import (
	"bytes"
	"fmt"
	"log"
	"net/http"
	"os"
	"runtime/pprof"
	"strconv"
	"time"
)

//go:noinline
func priceItem(n int) int {
	total := 0
	for i := 0; i < 40*n; i++ {
		total = (total*31 + i) % 1000003
	}
	return total
}

//go:noinline
func encodeOrder(items []int) string {
	return fmt.Sprint(items)
}

//go:noinline
func handleOrder(n int) string {
	items := make([]int, 20)
	for i := range items {
		items[i] = priceItem(2000 + n%7)
	}
	return encodeOrder(items)
}

func profileAndSend(wick string, every time.Duration) {
	for {
		var out bytes.Buffer
		from := time.Now().Unix()
		if err := pprof.StartCPUProfile(&out); err != nil {
			log.Fatal(err)
		}
		time.Sleep(every)
		pprof.StopCPUProfile()
		url := fmt.Sprintf("%s/ingest?name=checkout-go&format=pprof&from=%d&until=%d", wick, from, time.Now().Unix())
		answer, err := http.Post(url, "application/octet-stream", &out)
		if err != nil {
			log.Print("not sent: ", err)
			continue
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			log.Print("not sent: ", answer.Status)
		}
	}
}

func main() {
	every := 10.0
	if text := os.Getenv("WICK_EVERY"); text != "" {
		every, _ = strconv.ParseFloat(text, 64)
	}
	if wick := os.Getenv("WICK_URL"); wick != "" {
		go profileAndSend(wick, time.Duration(every*float64(time.Second)))
	}
	for n := 0; ; n++ {
		handleOrder(n)
		time.Sleep(5 * time.Millisecond)
	}
}
