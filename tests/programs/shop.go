// SPDX-License-Identifier: Apache-2.0
// A small shop with calls that get inlined, for the tests of symbols and source listings.

package main

import (
	"fmt"
	"os"
	"runtime/pprof"
	"sort"
	"strings"
)

type cart struct{ items []int }

func mix(a, b float64) float64 { return a*b + a }

func (c *cart) total() float64 {
	s := 1.0
	for _, v := range c.items {
		s = mix(s, float64(v)) / 1e6
	}
	return s
}

func checkout(c *cart) float64 {
	sort.Slice(c.items, func(i, j int) bool { return c.items[i] > c.items[j] })
	return c.total()
}

func words[T any](n int, v T) int {
	t := 0
	for i := 0; i < n; i++ {
		t += len(strings.Repeat(fmt.Sprint(v, i), 3))
	}
	return t
}

func main() {
	if len(os.Args) > 1 {
		f, _ := os.Create(os.Args[1])
		pprof.StartCPUProfile(f)
		defer pprof.StopCPUProfile()
	}
	c := &cart{}
	t := 0.0
	for i := 0; i < 30000; i++ {
		c.items = append(c.items, i*7919%1013)
		if i%50 == 0 {
			t += checkout(c)
		}
	}
	fmt.Println(t, words(150000, "x"))
}
