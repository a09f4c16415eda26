// SPDX-License-Identifier: Apache-2.0

// Wastes CPU time in one way for some seconds: wasteful regexp|json|gc|locks|none SECONDS. For tests of `wick query findings`.
package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strconv"
	"sync"
	"time"
)

var sink int
var kept [][]*int

//go:noinline
func work(n int) {
	for i := 0; i < n; i++ {
		sink += i * i
	}
}

//go:noinline
func wasteRegexp() {
	if regexp.MustCompile(`^(GET|POST) /[a-z]+/([0-9]+)(\?.*)?$`).MatchString("GET /items/42?x=1") {
		work(5000)
	}
}

type order struct {
	ID    int
	Name  string
	Items []string
	Price float64
}

//go:noinline
func wasteJSON() {
	b, err := json.Marshal(order{42, "a name", []string{"one", "two", "three"}, 9.99})
	var o order
	if err == nil {
		err = json.Unmarshal(b, &o)
	}
	if err == nil {
		work(500)
	}
}

//go:noinline
func wasteGC() {
	if len(kept) == 0 {
		for i := 0; i < 200; i++ {
			v := make([]*int, 4000)
			for k := range v {
				v[k] = new(int)
			}
			kept = append(kept, v)
		}
	}
	v := make([]*int, 4000)
	for k := range v {
		v[k] = new(int)
	}
	kept[sink%len(kept)] = v
	sink++
}

var mu sync.Mutex

//go:noinline
func wasteLocks() {
	mu.Lock()
	sink++
	mu.Unlock()
}

//go:noinline
func wasteNone() {
	work(100000)
}

func main() {
	seconds, err := strconv.Atoi(os.Args[2])
	waste, ok := map[string]func(){"regexp": wasteRegexp, "json": wasteJSON, "gc": wasteGC, "locks": wasteLocks, "none": wasteNone}[os.Args[1]]
	if err != nil || !ok {
		os.Exit(2)
	}
	threads := 1
	if os.Args[1] == "locks" {
		threads = 8
	}
	var wg sync.WaitGroup
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	for i := 0; i < threads; i++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for time.Now().Before(end) {
				for k := 0; k < 20; k++ {
					waste()
				}
			}
		}()
	}
	wg.Wait()
}
