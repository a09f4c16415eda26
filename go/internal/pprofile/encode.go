// SPDX-License-Identifier: Apache-2.0

package pprofile

import (
	"bytes"
	"compress/gzip"

	pw "wick.dev/go/internal/protowire"
)

type stringTable struct {
	index map[string]uint64
	list  []string
}

func newStringTable() *stringTable {
	return &stringTable{index: map[string]uint64{"": 0}, list: []string{""}}
}

func (t *stringTable) of(s string) uint64 {
	i, ok := t.index[s]
	if !ok {
		i = uint64(len(t.list))
		t.index[s] = i
		t.list = append(t.list, s)
	}
	return i
}

func (t *stringTable) valueType(v ValueType) []byte {
	b := pw.AppendUint(nil, 1, t.of(v.Type))
	return pw.AppendUint(b, 2, t.of(v.Unit))
}

// Encode writes p as profile.proto, compressed with gzip.
func (p *Profile) Encode() []byte {
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	z.Write(p.encode())
	z.Close()
	return out.Bytes()
}

func (p *Profile) encode() []byte {
	var b []byte
	t := newStringTable()
	for _, x := range p.Types {
		b = pw.AppendBytes(b, 1, t.valueType(x))
	}
	for i := range p.Samples {
		b = pw.AppendBytes(b, 2, t.sample(&p.Samples[i]))
	}
	for i := range p.Mappings {
		b = pw.AppendBytes(b, 3, t.mapping(uint64(i+1), &p.Mappings[i]))
	}
	for i := range p.Locations {
		b = pw.AppendBytes(b, 4, location(uint64(i+1), &p.Locations[i]))
	}
	for i, f := range p.Functions {
		m := pw.AppendUint(nil, 1, uint64(i+1))
		m = pw.AppendUint(m, 2, t.of(f.Name))
		m = pw.AppendUint(m, 3, t.of(f.SystemName))
		m = pw.AppendUint(m, 4, t.of(f.File))
		b = pw.AppendBytes(b, 5, pw.AppendInt(m, 5, f.StartLine))
	}
	var comments []uint64
	for _, c := range p.Comments {
		comments = append(comments, t.of(c))
	}
	period := t.valueType(p.PeriodType)
	texts := [4]uint64{t.of(p.DropFrames), t.of(p.KeepFrames), t.of(p.DefaultType), t.of(p.DocURL)}
	for _, s := range t.list {
		b = pw.AppendString(b, 6, s)
	}
	b = pw.AppendUint(b, 7, texts[0])
	b = pw.AppendUint(b, 8, texts[1])
	b = pw.AppendInt(b, 9, p.Time)
	b = pw.AppendInt(b, 10, p.Duration)
	b = pw.AppendBytes(b, 11, period)
	b = pw.AppendInt(b, 12, p.Period)
	b = pw.AppendPacked(b, 13, comments)
	b = pw.AppendUint(b, 14, texts[2])
	return pw.AppendUint(b, 15, texts[3])
}

func (t *stringTable) sample(s *Sample) []byte {
	ids := make([]uint64, len(s.Locations))
	for i, l := range s.Locations {
		ids[i] = uint64(l) + 1
	}
	values := make([]uint64, len(s.Values))
	for i, v := range s.Values {
		values[i] = uint64(v)
	}
	b := pw.AppendPacked(nil, 1, ids)
	b = pw.AppendPacked(b, 2, values)
	for _, l := range s.Labels {
		m := pw.AppendUint(nil, 1, t.of(l.Key))
		m = pw.AppendUint(m, 2, t.of(l.Str))
		m = pw.AppendInt(m, 3, l.Num)
		b = pw.AppendBytes(b, 3, pw.AppendUint(m, 4, t.of(l.Unit)))
	}
	return b
}

func (t *stringTable) mapping(id uint64, m *Mapping) []byte {
	b := pw.AppendUint(nil, 1, id)
	b = pw.AppendUint(b, 2, m.Start)
	b = pw.AppendUint(b, 3, m.Limit)
	b = pw.AppendUint(b, 4, m.Offset)
	b = pw.AppendUint(b, 5, t.of(m.File))
	b = pw.AppendUint(b, 6, t.of(m.BuildID))
	b = pw.AppendBool(b, 7, m.HasFunctions)
	b = pw.AppendBool(b, 8, m.HasFilenames)
	b = pw.AppendBool(b, 9, m.HasLineNumbers)
	return pw.AppendBool(b, 10, m.HasInlineFrames)
}

func location(id uint64, l *Location) []byte {
	b := pw.AppendUint(nil, 1, id)
	b = pw.AppendUint(b, 2, uint64(l.Mapping))
	b = pw.AppendUint(b, 3, l.Address)
	for _, line := range l.Lines {
		m := pw.AppendUint(nil, 1, uint64(line.Function)+1)
		m = pw.AppendInt(m, 2, line.Line)
		b = pw.AppendBytes(b, 4, pw.AppendInt(m, 3, line.Column))
	}
	return pw.AppendBool(b, 5, l.IsFolded)
}
