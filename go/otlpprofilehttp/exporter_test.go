// SPDX-License-Identifier: Apache-2.0

package otlpprofilehttp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"strings"
	"testing"
	"time"

	"wick.dev/go/internal/otlptest"
)

var quick = WithRetry(RetryConfig{Enabled: true, InitialInterval: time.Millisecond, MaxInterval: 5 * time.Millisecond, MaxElapsedTime: time.Minute})

func export(t *testing.T, s *otlptest.Server, options ...Option) error {
	t.Helper()
	e, err := New(context.Background(), append([]Option{WithEndpoint(s.Address()), quick}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Shutdown(context.Background())
	return e.ExportProfiles(context.Background(), []byte("request"))
}

func TestExport(t *testing.T) {
	s := otlptest.New(false)
	defer s.Close()
	if err := export(t, s, WithInsecure(), WithHeaders(map[string]string{"Authorization": "Bearer t"})); err != nil {
		t.Fatal(err)
	}
	if err := export(t, s, WithInsecure(), WithCompression("gzip"), WithURLPath("/other")); err != nil {
		t.Fatal(err)
	}
	r := s.Requests()
	if len(r) != 2 || string(r[0].Body) != "request" || string(r[1].Body) != "request" || r[0].Path != "/v1development/profiles" ||
		r[0].Headers.Get("authorization") != "Bearer t" || r[0].Headers.Get("content-type") != "application/x-protobuf" ||
		r[1].Headers.Get("content-encoding") != "gzip" || r[1].Path != "/other" {
		t.Fatalf("%+v", r)
	}
}

func TestTLS(t *testing.T) {
	s := otlptest.New(true)
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	if err := export(t, s, WithTLSClientConfig(&tls.Config{RootCAs: roots})); err != nil {
		t.Fatal(err)
	}
	if err := export(t, s, WithRetry(RetryConfig{})); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Fatalf("an unsigned certificate: %v", err)
	}
}

func TestRetry(t *testing.T) {
	for _, x := range []struct {
		status, tries int
		headers       map[string]string
	}{{429, 2, nil}, {502, 2, nil}, {503, 2, map[string]string{"retry-after": "0"}}, {504, 2, nil}, {400, 1, nil}, {401, 1, nil},
		{404, 1, nil}, {500, 1, nil}, {307, 1, map[string]string{"location": "http://127.0.0.1:1/"}}} {
		s := otlptest.New(false, otlptest.Answer{Status: x.status, Headers: x.headers, Body: []byte("\x08\x03\x12\x03why")})
		err := export(t, s, WithInsecure())
		if n := len(s.Requests()); n != x.tries || (err == nil) != (x.tries == 2) {
			t.Errorf("%d: %d tries, %v", x.status, n, err)
		}
		if x.status == http.StatusBadRequest && (err == nil || !strings.HasSuffix(err.Error(), "why")) {
			t.Error(err)
		}
		s.Close()
	}
}
