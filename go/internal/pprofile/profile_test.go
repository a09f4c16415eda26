// SPDX-License-Identifier: Apache-2.0

package pprofile

import (
	"bytes"
	"reflect"
	"runtime/pprof"
	"testing"
)

func example(values ...int64) *Profile {
	p := &Profile{
		Types:       []ValueType{{"alloc_space", "bytes"}, {"inuse_space", "bytes"}},
		DefaultType: "inuse_space",
		Mappings:    []Mapping{{Start: 0x400000, Limit: 0x500000, File: "/bin/x", BuildID: "a/b", HasFunctions: true}},
		Functions:   []Function{{Name: "leaf", File: "x.go", StartLine: 1}, {Name: "root", File: "x.go"}},
		Locations:   []Location{{Mapping: 1, Address: 0x401000, Lines: []Line{{0, 3, 0}}}, {Mapping: 1, Address: 0x402000, Lines: []Line{{1, 9, 0}, {0, 2, 4}}}},
		Time:        1000, Duration: 10, PeriodType: ValueType{"space", "bytes"}, Period: 524288,
		Comments: []string{"c"}, DropFrames: "d", KeepFrames: "k", DocURL: "u",
	}
	for i := 0; i+1 < len(values); i += 2 {
		p.Samples = append(p.Samples, Sample{Locations: []uint32{0, 1}[:1+i/2%2], Values: values[i : i+2],
			Labels: []Label{{Key: "bytes", Num: 1024, Unit: "bytes"}, {Key: "name", Str: "v"}}})
	}
	return p
}

func TestEncodeAndDecode(t *testing.T) {
	p := example(1, 2, 3, 4)
	got, err := Decode(p.Encode())
	if err != nil || !reflect.DeepEqual(got, p) {
		t.Fatalf("%v\n%+v\n%+v", err, got, p)
	}
}

func TestDecodeWhatGoWrites(t *testing.T) {
	for _, name := range []string{"heap", "goroutine", "mutex", "block"} {
		var b bytes.Buffer
		pprof.Lookup(name).WriteTo(&b, 0)
		p, err := Decode(b.Bytes())
		if err != nil || len(p.Types) == 0 {
			t.Fatal(name, err)
		}
		again, err := Decode(p.Encode())
		if err != nil || !reflect.DeepEqual(p, again) {
			t.Fatal(name, err)
		}
	}
}

func TestMerge(t *testing.T) {
	p := Merge([]*Profile{example(1, 2, 3, 4), example(10, 20), example(0, 0, 5, 0)})
	if len(p.Samples) != 2 || !reflect.DeepEqual(p.Samples[0].Values, []int64{11, 22}) ||
		!reflect.DeepEqual(p.Samples[1].Values, []int64{8, 4}) || p.Duration != 30 || len(p.Locations) != 2 {
		t.Fatalf("%+v", p)
	}
	if Merge(nil) != nil {
		t.Fatal("no profiles have a sum")
	}
}

func TestDelta(t *testing.T) {
	var d Delta
	p := example(100, 7, 50, 0)
	d.Apply(p) // only remembered; what is in use stays
	if len(p.Samples) != 1 || !reflect.DeepEqual(p.Samples[0].Values, []int64{0, 7}) {
		t.Fatalf("%+v", p.Samples)
	}
	p = example(130, 6, 50, 0)
	p.Time = 5000
	d.Apply(p)
	if len(p.Samples) != 1 || !reflect.DeepEqual(p.Samples[0].Values, []int64{30, 6}) || p.Time != 1000 || p.Duration != 4000 {
		t.Fatalf("%+v", p)
	}
	p = example(131, 6, 60, 0, 9, 1) // the third equals the first: one stack in two samples
	p.Time = 6000
	d.Apply(p)
	if p.Total(0) != 10+10 || p.Total(1) != 7 || p.Time != 5000 || p.Duration != 1000 {
		t.Fatalf("%+v", p)
	}
}

func TestDifference(t *testing.T) {
	p := Difference(example(1, 2, 3, 4), example(1, 2, 5, 3))
	if len(p.Samples) != 1 || !reflect.DeepEqual(p.Samples[0].Values, []int64{2, -1}) {
		t.Fatalf("%+v", p.Samples)
	}
}

func TestLimits(t *testing.T) {
	p := example(1, 1, 2, 2)
	p.Samples[1].Locations = []uint32{0, 1, 0, 1}
	p.LimitDepth(2)
	last := p.Samples[1].Locations[2]
	if len(p.Samples[1].Locations) != 3 || p.Functions[p.Locations[last].Lines[0].Function].Name != Truncated {
		t.Fatalf("%+v", p.Samples[1])
	}
	p = example()
	for i := int64(0); i < 100; i++ {
		p.Samples = append(p.Samples, Sample{Locations: []uint32{0}, Values: []int64{i, 2 * i}})
	}
	if n := p.LimitSamples(10); n != 91 || len(p.Samples) != 10 || p.Total(0) != 4950 || p.Total(1) != 9900 ||
		p.Samples[0].Values[0] != 99 || p.Samples[9].Values[0] != 90*91/2 {
		t.Fatalf("%d %+v", n, p.Samples)
	}
	if p.LimitSamples(10) != 0 {
		t.Fatal("nothing is cut at the limit")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(example(1, 2, 3, 4).encode())
	f.Add([]byte{0x32, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Decode(p.Encode())
		if err != nil || len(again.Samples) != len(p.Samples) {
			t.Fatal(err)
		}
		Merge([]*Profile{p, again})
		(&Delta{}).Apply(p)
		p.LimitDepth(1)
		p.LimitSamples(1)
	})
}

func TestDecodeTruncatedBytes(t *testing.T) {
	b := example(1, 2, 3, 4).encode()
	for i := range b {
		Decode(b[:i]) // must not panic
		c := append([]byte(nil), b...)
		c[i] ^= 0xff
		Decode(c)
	}
	z := example(1, 2).Encode()
	if _, err := Decode(z[:len(z)-9]); err == nil {
		t.Fatal("half a gzip file was decoded")
	}
}
