// SPDX-License-Identifier: Apache-2.0

// Package otlptest is an OTLP server for the tests of the exporters: it gives the configured answers and keeps what it received.
package otlptest

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/h2c"
)

// Answer is one answer. Status is that of HTTP or gRPC; 0 is success.
type Answer struct {
	Status  int
	Headers map[string]string
	Body    []byte
}

// Request is what has arrived.
type Request struct {
	Path    string
	Headers http.Header
	Body    []byte // unframed and decompressed
}

// Server answers gRPC over HTTP/2 and OTLP over HTTP, by content type.
type Server struct {
	*httptest.Server
	mu       sync.Mutex
	answers  []Answer
	requests []Request
}

// New starts a server. It gives the answers in turn and then success.
func New(tls bool, answers ...Answer) *Server {
	s := &Server{answers: answers}
	if tls {
		s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
		s.EnableHTTP2 = true
		s.StartTLS()
	} else {
		s.Server = httptest.NewServer(h2c.NewHandler(http.HandlerFunc(s.serve), &http2.Server{}))
	}
	return s
}

// Address returns host:port.
func (s *Server) Address() string { return strings.SplitN(s.URL, "://", 2)[1] }

// Requests returns what has arrived.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

func inflate(b []byte) []byte {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil
	}
	b, _ = io.ReadAll(z)
	return b
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	grpc := r.Header.Get("content-type") == "application/grpc"
	switch {
	case grpc && len(body) >= 5:
		zipped := body[0] == 1
		if body = body[5:]; zipped {
			body = inflate(body)
		}
	case r.Header.Get("content-encoding") == "gzip":
		body = inflate(body)
	}
	s.mu.Lock()
	var a Answer
	if len(s.answers) > 0 {
		a, s.answers = s.answers[0], s.answers[1:]
	}
	s.requests = append(s.requests, Request{r.URL.Path, r.Header, body})
	s.mu.Unlock()
	for k, v := range a.Headers {
		w.Header().Set(k, v)
	}
	if !grpc {
		if a.Status == 0 {
			a.Status = http.StatusOK
		}
		w.WriteHeader(a.Status)
		w.Write(a.Body)
		return
	}
	w.Header().Set("content-type", "application/grpc")

	if a.Status != 0 {
		w.Header().Set("grpc-status", strconv.Itoa(a.Status))
		return
	}
	w.Header().Set("trailer", "grpc-status")
	head := make([]byte, 5)
	binary.BigEndian.PutUint32(head[1:], uint32(len(a.Body)))
	w.Write(append(head, a.Body...))
	w.Header().Set("grpc-status", "0")
}
