// SPDX-License-Identifier: Apache-2.0

// Package pprofile is pprof's profile.proto in memory: decoding, encoding, merging, differences and limits. It has what a
// profiler inside a Go program needs and no more; entries of the tables are referred to by index, not by id.
package pprofile

import (
	"hash/fnv"
	"sort"
)

// ValueType names what values mean.
type ValueType struct{ Type, Unit string }

// Label is one label of a sample: text, or a number with a unit.
type Label struct {
	Key, Str string
	Num      int64
	Unit     string
}

// Sample has one value per sample type. Locations are indices, the leaf first.
type Sample struct {
	Locations []uint32
	Values    []int64
	Labels    []Label
}

// Mapping is a file that is mapped into the process.
type Mapping struct {
	Start, Limit, Offset                                        uint64
	File, BuildID                                               string
	HasFunctions, HasFilenames, HasLineNumbers, HasInlineFrames bool
}

// Function is a function with its source file.
type Function struct {
	Name, SystemName, File string
	StartLine              int64
}

// Line is a line of a function.
type Line struct {
	Function     uint32
	Line, Column int64
}

// Location is a place in the code; several lines are inlined calls, the innermost first. Mapping is an index plus 1; 0: none.
type Location struct {
	Mapping  uint32
	Address  uint64
	Lines    []Line
	IsFolded bool
}

// Profile is a decoded profile.proto.
type Profile struct {
	Name        string // what Go calls it: mutex and block profiles have the same types; pprof has no field for it
	Types       []ValueType
	DefaultType string
	Samples     []Sample
	Mappings    []Mapping
	Locations   []Location
	Functions   []Function
	Time        int64 // ns since 1970
	Duration    int64 // ns
	PeriodType  ValueType
	Period      int64
	Comments    []string
	DropFrames  string
	KeepFrames  string
	DocURL      string
}

// TypeIndex returns the index of the sample type, or -1.
func (p *Profile) TypeIndex(name string) int {
	for i, t := range p.Types {
		if t.Type == name {
			return i
		}
	}
	return -1
}

// Total returns the sum of the values of type i.
func (p *Profile) Total(i int) int64 {
	var n int64
	for _, s := range p.Samples {
		n += s.Values[i]
	}
	return n
}

// locationKeys returns for each location a number that is equal in every profile of this process in which the location is
// the same. 64 bits: two different locations of one program get the same number with a probability of less than 1e-9.
func (p *Profile) locationKeys() []uint64 {
	keys := make([]uint64, len(p.Locations))
	h := fnv.New64a()
	var num [8]byte
	put := func(v uint64) {
		for i := range num {
			num[i] = byte(v >> (8 * i))
		}
		h.Write(num[:])
	}
	functions := make([]uint64, len(p.Functions))
	for i, f := range p.Functions {
		h.Reset()
		h.Write([]byte(f.Name))
		put(uint64(len(f.Name)))
		h.Write([]byte(f.File))
		put(uint64(f.StartLine))
		functions[i] = h.Sum64()
	}
	for i, l := range p.Locations {
		h.Reset()
		if l.Mapping != 0 {
			m := &p.Mappings[l.Mapping-1]
			put(m.Start)
			put(m.Offset)
			h.Write([]byte(m.File))
		}
		put(l.Address)
		for _, line := range l.Lines {
			put(functions[line.Function])
			put(uint64(line.Line))
		}
		keys[i] = h.Sum64()
	}
	return keys
}

// sampleKey appends the identity of a sample, stack and labels, to buf.
func sampleKey(buf []byte, s *Sample, locations []uint64) []byte {
	for _, l := range s.Locations {
		k := locations[l]
		buf = append(buf, byte(k), byte(k>>8), byte(k>>16), byte(k>>24), byte(k>>32), byte(k>>40), byte(k>>48), byte(k>>56))
	}
	for _, l := range s.Labels {
		buf = append(buf, 0)
		buf = append(buf, l.Key...)
		buf = append(buf, 0)
		buf = append(buf, l.Str...)
		buf = append(buf, 0)
		buf = append(buf, l.Unit...)
		k := uint64(l.Num)
		buf = append(buf, byte(k), byte(k>>8), byte(k>>16), byte(k>>24), byte(k>>32), byte(k>>40), byte(k>>48), byte(k>>56))
	}
	return buf
}

func sortLabels(labels []Label) {
	if len(labels) > 1 {
		sort.SliceStable(labels, func(i, k int) bool { return labels[i].Key < labels[k].Key })
	}
}
