// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"time"

	pw "wick.dev/go/internal/protowire"
)

// Status is a google.rpc.Status: why a server refused a request.
type Status struct {
	Code    int
	Message string
	// RetryAfter is the delay of its RetryInfo. HasRetry reports whether there is one.
	RetryAfter time.Duration
	HasRetry   bool
}

// DecodeStatus reads a google.rpc.Status; bytes that are none give a zero Status.
func DecodeStatus(b []byte) Status {
	var s Status
	r := pw.NewReader(b)
	var f pw.Field
	for r.Next(&f) {
		switch f.Number {
		case 1:
			s.Code = int(f.Uint)
		case 2:
			s.Message = string(f.Bytes)
		case 3:
			s.detail(f.Bytes)
		}
	}
	if r.Err() != nil {
		return Status{}
	}
	return s
}

// detail reads a google.protobuf.Any, of which only google.rpc.RetryInfo matters.
func (s *Status) detail(b []byte) {
	var kind string
	var value []byte
	r := pw.NewReader(b)
	var f pw.Field
	for r.Next(&f) {
		switch f.Number {
		case 1:
			kind = string(f.Bytes)
		case 2:
			value = f.Bytes
		}
	}
	if kind != "type.googleapis.com/google.rpc.RetryInfo" {
		return
	}
	s.HasRetry = true
	r = pw.NewReader(value)
	for r.Next(&f) {
		if f.Number != 1 {
			continue
		}
		d := pw.NewReader(f.Bytes)
		for d.Next(&f) {
			switch f.Number {
			case 1:
				s.RetryAfter += time.Duration(f.Uint) * time.Second
			case 2:
				s.RetryAfter += time.Duration(f.Uint)
			}
		}
	}
}
