// SPDX-License-Identifier: Apache-2.0

// Shop is a small web service with something to find in its profile: checkout encodes every order as JSON twice and
// sorts the whole catalogue for each request. It calls itself, so that there is load.
package main

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	_ "net/http/pprof"
	"sort"
	"strings"
	"time"
)

type item struct {
	Name  string   `json:"name"`
	Price int      `json:"price"`
	Tags  []string `json:"tags"`
}

var catalogue []item

func fillCatalogue() {
	for i := 0; i < 400; i++ {
		sum := sha256.Sum256([]byte(fmt.Sprint("item", i)))
		catalogue = append(catalogue, item{fmt.Sprintf("%x", sum[:6]), int(sum[7]) * 10, strings.Split(fmt.Sprintf("%x", sum[8:12]), "a")})
	}
}

func cheapest(n int) []item {
	all := append([]item(nil), catalogue...)
	sort.Slice(all, func(i, j int) bool {
		return all[i].Price < all[j].Price || all[i].Price == all[j].Price && all[i].Name < all[j].Name
	})
	return all[:n]
}

func encodeOrder(items []item) []byte {
	b, err := json.Marshal(items)
	if err != nil {
		log.Fatal(err)
	}
	return b
}

func signOrder(b []byte) string {
	sum := sha256.Sum256(b)
	for i := 0; i < 40; i++ {
		sum = sha256.Sum256(sum[:])
	}
	return fmt.Sprintf("%x", sum)
}

func checkout(w http.ResponseWriter, r *http.Request) {
	items := cheapest(50)
	w.Header().Set("Signature", signOrder(encodeOrder(items)))
	w.Write(encodeOrder(items))
}

func search(w http.ResponseWriter, r *http.Request) {
	query, n := r.URL.Query().Get("q"), 0
	for _, it := range catalogue {
		if strings.Contains(strings.ToLower(it.Name), strings.ToLower(query)) {
			n++
		}
	}
	fmt.Fprintln(w, n)
}

func load(base string) {
	for i := 0; ; i++ {
		path := "/checkout"
		if i%3 == 0 {
			path = "/search?q=AB"
		}
		r, err := http.Get(base + path)
		if err != nil {
			log.Fatal(err)
		}
		io.Copy(io.Discard, r.Body)
		r.Body.Close()
		time.Sleep(200 * time.Microsecond)
	}
}

func main() {
	addr := flag.String("listen", "127.0.0.1:0", "address to listen on")
	flag.Parse()
	fillCatalogue()
	http.HandleFunc("/checkout", checkout)
	http.HandleFunc("/search", search)
	l, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("shop listens on http://%s\n", l.Addr())
	go load("http://" + l.Addr().String())
	log.Fatal(http.Serve(l, nil))
}
