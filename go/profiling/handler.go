// SPDX-License-Identifier: Apache-2.0

package profiling

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"os"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"sort"
	"strconv"
	"strings"
	"time"

	"wick.dev/go/internal/pprofile"
)

// Handler serves /debug/pprof/ as net/http/pprof does, and works beside a running Provider: Go has one CPU profile per process,
// so that net/http/pprof answers 500 while it runs, whereas this one takes /debug/pprof/profile?seconds=N from it.
//
//	http.Handle("/debug/pprof/", profiling.Handler())
//
// instead of the import of net/http/pprof, whose handlers have the same path.
func Handler() http.Handler { return http.HandlerFunc(serveProfiles) }

func serveProfiles(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	name := r.URL.Path
	if i := strings.Index(name, "/pprof/"); i >= 0 {
		name = name[i+len("/pprof/"):]
	}
	switch name = strings.Trim(name, "/"); name {
	case "":
		serveIndex(w)
	case "profile":
		serveCPU(w, r)
	case "cmdline":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprint(w, strings.Join(os.Args, "\x00"))
	case "symbol":
		serveSymbol(w, r)
	case "trace":
		serveTrace(w, r)
	default:
		serveNamed(w, r, name)
	}
}

func serveError(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Go-Pprof", "1")
	w.Header().Del("Content-Disposition")
	w.WriteHeader(status)
	fmt.Fprintln(w, text)
}

func attachment(w http.ResponseWriter, name string) {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
}

// seconds returns the time to profile, or false after it has answered that it is too long.
func seconds(w http.ResponseWriter, r *http.Request, otherwise float64) (time.Duration, bool) {
	n, err := strconv.ParseFloat(r.FormValue("seconds"), 64)
	if n <= 0 || err != nil {
		n = otherwise
	}
	srv, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
	if ok && srv.WriteTimeout != 0 && n >= srv.WriteTimeout.Seconds() {
		serveError(w, http.StatusBadRequest, "profile duration exceeds server's WriteTimeout")
		return 0, false
	}
	return time.Duration(n * float64(time.Second)), true
}

// wait returns false if the client has gone.
func wait(r *http.Request, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

func serveCPU(w http.ResponseWriter, r *http.Request) {
	d, ok := seconds(w, r, 30)
	if !ok {
		return
	}
	reader, err := cpu.add(0)
	if err == nil {
		wait(r, d)
	}
	p, bad := cpu.remove(reader)
	if err == nil {
		err = bad
	}
	if err != nil || p == nil {
		serveError(w, http.StatusInternalServerError, fmt.Sprintf("Could not enable CPU profiling: %v", err))
		return
	}
	attachment(w, "profile")
	w.Write(p.Encode())
}

func serveTrace(w http.ResponseWriter, r *http.Request) {
	d, ok := seconds(w, r, 1)
	if !ok {
		return
	}
	attachment(w, "trace")
	if err := trace.Start(w); err != nil {
		serveError(w, http.StatusInternalServerError, fmt.Sprintf("Could not enable tracing: %s", err))
		return
	}
	wait(r, d)
	trace.Stop()
}

func serveNamed(w http.ResponseWriter, r *http.Request, name string) {
	source := pprof.Lookup(name)
	if source == nil {
		serveError(w, http.StatusNotFound, "Unknown profile")
		return
	}
	if r.FormValue("seconds") != "" {
		serveDifference(w, r, name)
		return
	}
	if n, _ := strconv.Atoi(r.FormValue("gc")); name == "heap" && n > 0 {
		runtime.GC()
	}
	debug, _ := strconv.Atoi(r.FormValue("debug"))
	if debug != 0 {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	} else {
		attachment(w, name)
	}
	if p, err := readProfile(name); debug == 0 && isOfWaits(name) && err == nil {
		w.Write(p.Encode())
		return
	}
	source.WriteTo(w, debug)
}

// serveDifference answers what has changed in ?seconds=N.
func serveDifference(w http.ResponseWriter, r *http.Request, name string) {
	d, ok := seconds(w, r, 0)
	if !ok {
		return
	}
	if d <= 0 || r.FormValue("debug") != "" && r.FormValue("debug") != "0" {
		serveError(w, http.StatusBadRequest, "seconds must be a number greater than 0, and goes without debug")
		return
	}
	before, err := readProfile(name)
	if err == nil && !wait(r, d) {
		return
	}
	var after *pprofile.Profile
	if err == nil {
		after, err = readProfile(name)
	}
	if err != nil {
		serveError(w, http.StatusInternalServerError, err.Error())
		return
	}
	attachment(w, name+"-delta")
	w.Write(pprofile.Difference(before, after).Encode())
}

func serveSymbol(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	text := r.URL.RawQuery
	if r.Method == http.MethodPost {
		b, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		text = string(b)
	}
	fmt.Fprintf(w, "num_symbols: 1\n") // not the number, but that there are any
	for _, word := range strings.Split(text, "+") {
		pc, err := strconv.ParseUint(strings.TrimSpace(word), 0, 64)
		if f := runtime.FuncForPC(uintptr(pc)); err == nil && f != nil {
			fmt.Fprintf(w, "%#x %s\n", pc, f.Name())
		}
	}
}

func serveIndex(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	names := []string{"cmdline", "profile", "symbol", "trace"}
	counts := map[string]int{}
	for _, p := range pprof.Profiles() {
		names = append(names, p.Name())
		counts[p.Name()] = p.Count()
	}
	sort.Strings(names)
	fmt.Fprint(w, "<html><head><title>/debug/pprof/</title></head><body>\n<p>/debug/pprof/</p>\n<table>\n")
	for _, n := range names {
		fmt.Fprintf(w, "<tr><td>%d</td><td><a href='%s?debug=1'>%s</a></td></tr>\n", counts[n], html.EscapeString(n),
			html.EscapeString(n))
	}
	fmt.Fprint(w, "</table>\n<p><a href='goroutine?debug=2'>full goroutine stack dump</a></p>\n</body></html>\n")
}
