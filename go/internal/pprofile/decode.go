// SPDX-License-Identifier: Apache-2.0

package pprofile

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"wick.dev/go/internal/protowire"
)

// MaxSize is the largest profile, inflated, that Decode accepts.
const MaxSize = 64 << 20

type decoder struct {
	p                               *Profile
	strings                         []string
	mappings, locations, functions  map[uint64]uint32
	defaultType, drop, keep, docURL uint64
	comments                        []uint64
	samples, rawLocations           [][]byte
	scratch                         []uint64
}

// Decode decodes a profile, compressed with gzip or not.
func Decode(b []byte) (*Profile, error) {
	if len(b) >= 2 && b[0] == 0x1f && b[1] == 0x8b {
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, fmt.Errorf("pprof: %w", err)
		}
		if b, err = io.ReadAll(io.LimitReader(z, MaxSize+1)); err != nil {
			return nil, fmt.Errorf("pprof: %w", err)
		}
	}
	if len(b) > MaxSize {
		return nil, fmt.Errorf("pprof: more than %d bytes", MaxSize)
	}
	d := decoder{p: &Profile{}, mappings: map[uint64]uint32{}, locations: map[uint64]uint32{}, functions: map[uint64]uint32{}}
	if err := d.decode(b); err != nil {
		return nil, fmt.Errorf("pprof: %w", err)
	}
	return d.p, nil
}

// The string table may come last, so everything that refers to strings waits for it.
func (d *decoder) decode(b []byte) error {
	var types, mappings, functions [][]byte
	var period []byte
	r := protowire.NewReader(b)
	var f protowire.Field
	var err error
	for err == nil && r.Next(&f) {
		switch f.Number {
		case 1:
			types = append(types, f.Bytes)
		case 2:
			d.samples = append(d.samples, f.Bytes)
		case 3:
			mappings = append(mappings, f.Bytes)
		case 4:
			d.rawLocations = append(d.rawLocations, f.Bytes)
		case 5:
			functions = append(functions, f.Bytes)
		case 6:
			d.strings = append(d.strings, string(f.Bytes))
		case 7:
			d.drop = f.Uint
		case 8:
			d.keep = f.Uint
		case 9:
			d.p.Time = int64(f.Uint)
		case 10:
			d.p.Duration = int64(f.Uint)
		case 11:
			period = f.Bytes
		case 12:
			d.p.Period = int64(f.Uint)
		case 13:
			d.comments, err = f.Uints(d.comments)
		case 14:
			d.defaultType = f.Uint
		case 15:
			d.docURL = f.Uint
		}
	}
	if err == nil {
		err = r.Err()
	}
	if err != nil {
		return err
	}
	if len(d.strings) == 0 || d.strings[0] != "" {
		return errors.New("the string table is missing or does not begin with an empty string")
	}
	steps := []func() error{
		func() error { return d.texts(types, period) },
		func() error { return each(mappings, d.mapping) },
		func() error { return each(functions, d.function) },
		func() error { return each(d.rawLocations, d.location) },
		func() error { return each(d.samples, d.sample) },
	}
	for _, step := range steps {
		if err = step(); err != nil {
			return err
		}
	}
	return nil
}

func each(list [][]byte, decode func([]byte) error) error {
	for _, b := range list {
		if err := decode(b); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) string(i uint64) (string, error) {
	if i >= uint64(len(d.strings)) {
		return "", fmt.Errorf("there is no string %d", i)
	}
	return d.strings[i], nil
}

func (d *decoder) texts(types [][]byte, period []byte) error {
	var err error
	for _, b := range types {
		t, err := d.valueType(b)
		if err != nil {
			return err
		}
		d.p.Types = append(d.p.Types, t)
	}
	if d.p.PeriodType, err = d.valueType(period); err != nil {
		return err
	}
	for _, c := range d.comments {
		s, err := d.string(c)
		if err != nil {
			return err
		}
		d.p.Comments = append(d.p.Comments, s)
	}
	for _, x := range []struct {
		to *string
		i  uint64
	}{{&d.p.DefaultType, d.defaultType}, {&d.p.DropFrames, d.drop}, {&d.p.KeepFrames, d.keep}, {&d.p.DocURL, d.docURL}} {
		if *x.to, err = d.string(x.i); err != nil {
			return err
		}
	}
	return nil
}

// scalars reads the varint fields of a message into v, by number.
func scalars(b []byte, v []uint64) error {
	r := protowire.NewReader(b)
	var f protowire.Field
	for r.Next(&f) {
		if f.Number < len(v) && f.Kind == protowire.Varint {
			v[f.Number] = f.Uint
		}
	}
	return r.Err()
}

func (d *decoder) valueType(b []byte) (ValueType, error) {
	var v [3]uint64
	if err := scalars(b, v[:]); err != nil {
		return ValueType{}, err
	}
	t, err := d.string(v[1])
	if err != nil {
		return ValueType{}, err
	}
	u, err := d.string(v[2])
	return ValueType{t, u}, err
}

func (d *decoder) mapping(b []byte) error {
	var v [11]uint64
	if err := scalars(b, v[:]); err != nil {
		return err
	}
	file, err := d.string(v[5])
	if err != nil {
		return err
	}
	id, err := d.string(v[6])
	if err != nil {
		return err
	}
	d.p.Mappings = append(d.p.Mappings, Mapping{Start: v[2], Limit: v[3], Offset: v[4], File: file, BuildID: id,
		HasFunctions: v[7] != 0, HasFilenames: v[8] != 0, HasLineNumbers: v[9] != 0, HasInlineFrames: v[10] != 0})
	d.mappings[v[1]] = uint32(len(d.p.Mappings))
	return nil
}

func (d *decoder) function(b []byte) error {
	var v [6]uint64
	if err := scalars(b, v[:]); err != nil {
		return err
	}
	var text [3]string
	for i := range text {
		s, err := d.string(v[2+i])
		if err != nil {
			return err
		}
		text[i] = s
	}
	d.functions[v[1]] = uint32(len(d.p.Functions))
	d.p.Functions = append(d.p.Functions, Function{Name: text[0], SystemName: text[1], File: text[2], StartLine: int64(v[5])})
	return nil
}

func (d *decoder) location(b []byte) error {
	var l Location
	var id uint64
	r := protowire.NewReader(b)
	var f protowire.Field
	for r.Next(&f) {
		switch f.Number {
		case 1:
			id = f.Uint
		case 2:
			l.Mapping = d.mappings[f.Uint]
		case 3:
			l.Address = f.Uint
		case 4:
			var v [4]uint64
			if err := scalars(f.Bytes, v[:]); err != nil {
				return err
			}
			fn, ok := d.functions[v[1]]
			if !ok {
				return fmt.Errorf("there is no function %d", v[1])
			}
			l.Lines = append(l.Lines, Line{fn, int64(v[2]), int64(v[3])})
		case 5:
			l.IsFolded = f.Uint != 0
		}
	}
	d.locations[id] = uint32(len(d.p.Locations))
	d.p.Locations = append(d.p.Locations, l)
	return r.Err()
}

func (d *decoder) label(b []byte) (Label, error) {
	var v [5]uint64
	if err := scalars(b, v[:]); err != nil {
		return Label{}, err
	}
	var text [3]string
	for i, at := range []uint64{v[1], v[2], v[4]} {
		s, err := d.string(at)
		if err != nil {
			return Label{}, err
		}
		text[i] = s
	}
	l := Label{Key: text[0], Str: text[1], Num: int64(v[3]), Unit: text[2]}
	if l.Str != "" {
		l.Num, l.Unit = 0, ""
	}
	return l, nil
}

func (d *decoder) sample(b []byte) error {
	var s Sample
	var err error
	ids, values := d.scratch[:0], []uint64(nil)
	r := protowire.NewReader(b)
	var f protowire.Field
	for err == nil && r.Next(&f) {
		switch f.Number {
		case 1:
			ids, err = f.Uints(ids)
		case 2:
			values, err = f.Uints(values)
		case 3:
			var l Label
			if l, err = d.label(f.Bytes); err == nil && (l.Str != "" || l.Num != 0 || l.Unit != "") {
				s.Labels = append(s.Labels, l)
			}
		}
	}
	d.scratch = ids
	if err == nil {
		err = r.Err()
	}
	if err == nil && len(values) != len(d.p.Types) {
		err = fmt.Errorf("a sample has %d values, expected %d", len(values), len(d.p.Types))
	}
	if err != nil {
		return err
	}
	s.Locations = make([]uint32, len(ids))
	for i, id := range ids {
		l, ok := d.locations[id]
		if !ok {
			return fmt.Errorf("there is no location %d", id)
		}
		s.Locations[i] = l
	}
	s.Values = make([]int64, len(values))
	for i, v := range values {
		s.Values[i] = int64(v)
	}
	d.p.Samples = append(d.p.Samples, s)
	return nil
}
