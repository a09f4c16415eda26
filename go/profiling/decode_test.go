// SPDX-License-Identifier: Apache-2.0

package profiling

import (
	"encoding/hex"
	"strings"

	pw "wick.dev/go/internal/protowire"
)

// decoded is what the tests look at in a request.
type decoded struct {
	resource map[string]interface{}
	samples  []decodedSample
	period   int64
}

type decodedSample struct {
	kind    string // sample type
	profile string // its name, if it was sent
	stack   string // functions, the leaf first, joined by ;
	value   int64
	span    string // hex
	attrs   map[string]string
}

func fields(b []byte) (list []pw.Field) {
	r := pw.NewReader(b)
	var f pw.Field
	for r.Next(&f) {
		list = append(list, f)
	}
	if r.Err() != nil {
		panic(r.Err())
	}
	return list
}

func one(b []byte, number int) (found pw.Field) {
	for _, f := range fields(b) {
		if f.Number == number {
			found = f
		}
	}
	return found
}

func many(b []byte, number int) (list [][]byte) {
	for _, f := range fields(b) {
		if f.Number == number {
			list = append(list, f.Bytes)
		}
	}
	return list
}

func value(b []byte) interface{} {
	for _, f := range fields(b) {
		if f.Number == 3 {
			return int64(f.Uint)
		}
		return string(f.Bytes)
	}
	return nil
}

func decode(request []byte) decoded {
	d := decoded{resource: map[string]interface{}{}}
	dictionary := one(request, 2).Bytes
	strs, functions, locations := many(dictionary, 5), many(dictionary, 3), many(dictionary, 2)
	stacks, links, attrs := many(dictionary, 7), many(dictionary, 4), many(dictionary, 6)
	text := func(i uint64) string { return string(strs[i]) }
	resource := one(request, 1).Bytes
	for _, kv := range many(one(resource, 1).Bytes, 1) {
		d.resource[string(one(kv, 1).Bytes)] = value(one(kv, 2).Bytes)
	}
	for _, scope := range many(resource, 2) {
		for _, p := range many(scope, 2) {
			kind, profile := text(one(one(p, 1).Bytes, 1).Uint), ""
			f := one(p, 11)
			indices, _ := f.Uints(nil)
			for _, a := range indices {
				if text(one(attrs[a], 1).Uint) == "pprof.profile.name" {
					profile, _ = value(one(attrs[a], 2).Bytes).(string)
				}
			}
			d.period = int64(one(p, 6).Uint)
			for _, s := range many(p, 2) {
				x := decodedSample{kind: kind, profile: profile, attrs: map[string]string{}}
				var names []string
				f := one(stacks[one(s, 1).Uint], 1)
				indices, _ := f.Uints(nil)
				for _, l := range indices {
					for _, line := range many(locations[l], 3) {
						names = append(names, text(one(functions[one(line, 1).Uint], 1).Uint))
					}
				}
				x.stack = strings.Join(names, ";")
				x.span = hex.EncodeToString(one(links[one(s, 3).Uint], 2).Bytes)
				f = one(s, 4)
				values, _ := f.Uints(nil)
				x.value = int64(values[0])
				f = one(s, 2)
				list, _ := f.Uints(nil)
				for _, a := range list {
					if v, ok := value(one(attrs[a], 2).Bytes).(string); ok {
						x.attrs[text(one(attrs[a], 1).Uint)] = v
					}
				}
				d.samples = append(d.samples, x)
			}
		}
	}
	return d
}
