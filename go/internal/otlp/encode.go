// SPDX-License-Identifier: Apache-2.0

// Package otlp writes OTLP profiles (opentelemetry-proto 1.10 and later, v1development): pprof profiles become one request
// with one dictionary, as `wick convert` writes them.
//
// A pprof with n sample types becomes n Profiles of one scope. Text labels trace_id and span_id become the link of a sample.
package otlp

import (
	"crypto/rand"
	"encoding/hex"
	"math"
	"strconv"
	"strings"

	"wick.dev/go/internal/pprofile"
	pw "wick.dev/go/internal/protowire"
)

// Labels that become links, in lower-case hexadecimal.
const (
	TraceIDLabel = "trace_id"
	SpanIDLabel  = "span_id"
)

// KeyValue is an attribute. Value is a string, bool, int64, float64 or []string.
type KeyValue struct {
	Key   string
	Value interface{}
}

// Scope describes who made the profiles.
type Scope struct {
	Name, Version string
	Attributes    []KeyValue
}

// Options change what Add writes.
type Options struct {
	NoLinks bool // labels trace_id and span_id stay labels
	NoIDs   bool // Profiles have no profile_id
	// DropSpan, if set, is asked for each span of a sample; true: the sample is written without a link.
	DropSpan func(span [8]byte) bool
}

// Request collects profiles for one ExportProfilesServiceRequest.
type Request struct {
	resource []KeyValue
	options  Options
	scopes   [][]byte
	samples  int

	strings                                              map[string]uint64
	mappings, locations, functions, links, attrs, stacks map[string]uint64
	tables                                               [8][]byte // encoded entries, by field number of ProfilesDictionary
	counts                                               [8]uint64
	key                                                  []byte
}

const (
	mappingTable = iota + 1
	locationTable
	functionTable
	linkTable
	stringTable
	attributeTable
	stackTable
)

// NewRequest returns a request for profiles of one resource.
func NewRequest(resource []KeyValue, o Options) *Request {
	r := &Request{resource: resource, options: o, strings: map[string]uint64{}, mappings: map[string]uint64{},
		locations: map[string]uint64{}, functions: map[string]uint64{}, links: map[string]uint64{},
		attrs: map[string]uint64{}, stacks: map[string]uint64{}}
	for t := mappingTable; t <= stackTable; t++ { // entry 0 of each table is the zero value
		if t == stringTable {
			r.string("")
		} else {
			r.entry(t, nil)
		}
	}
	return r
}

// Samples returns how many samples the request has.
func (r *Request) Samples() int { return r.samples }

func (r *Request) entry(table int, message []byte) uint64 {
	r.tables[table] = pw.AppendBytes(r.tables[table], table, message)
	r.counts[table]++
	return r.counts[table] - 1
}

// intern returns the index of an entry, which is identified by its own bytes.
func (r *Request) intern(table int, index map[string]uint64, message []byte) uint64 {
	if len(message) == 0 {
		return 0
	}
	if i, ok := index[string(message)]; ok {
		return i
	}
	i := r.entry(table, message)
	index[string(message)] = i
	return i
}

func (r *Request) string(s string) uint64 {
	i, ok := r.strings[s]
	if !ok {
		i = r.counts[stringTable]
		r.strings[s] = i
		r.tables[stringTable] = pw.AppendString(r.tables[stringTable], stringTable, strings.ToValidUTF8(s, "\uFFFD"))
		r.counts[stringTable]++
	}
	return i
}

func anyValue(v interface{}) []byte {
	switch x := v.(type) {
	case string:
		return pw.AppendString(nil, 1, strings.ToValidUTF8(x, "\uFFFD"))
	case bool:
		if x {
			return []byte{2 << 3, 1}
		}
		return []byte{2 << 3, 0}
	case int64:
		return pw.AppendVarint([]byte{3 << 3}, uint64(x))
	case float64:
		b := make([]byte, 9)
		b[0] = 4<<3 | pw.Fixed64
		for i, n := 0, math.Float64bits(x); i < 8; i++ {
			b[1+i] = byte(n >> (8 * i))
		}
		return b
	case []string:
		var list []byte
		for _, s := range x {
			list = pw.AppendBytes(list, 1, anyValue(s))
		}
		return pw.AppendBytes(nil, 5, list)
	}
	return nil
}

func keyValues(b []byte, field int, list []KeyValue) []byte {
	for _, kv := range list {
		m := pw.AppendString(nil, 1, kv.Key)
		b = pw.AppendBytes(b, field, pw.AppendBytes(m, 2, anyValue(kv.Value)))
	}
	return b
}

func (r *Request) attribute(key string, value interface{}, unit string) uint64 {
	m := pw.AppendUint(nil, 1, r.string(key))
	m = pw.AppendBytes(m, 2, anyValue(value))
	return r.intern(attributeTable, r.attrs, pw.AppendUint(m, 3, r.string(unit)))
}

func (r *Request) mapping(m *pprofile.Mapping) uint64 {
	var attrs []uint64
	if m.BuildID != "" {
		key := "process.executable.build_id.gnu"
		if strings.Contains(m.BuildID, "/") {
			key = "process.executable.build_id.go"
		}
		attrs = append(attrs, r.attribute(key, m.BuildID, ""))
	}
	for _, x := range []struct {
		is   bool
		name string
	}{{m.HasFunctions, "functions"}, {m.HasFilenames, "filenames"}, {m.HasLineNumbers, "line_numbers"},
		{m.HasInlineFrames, "inline_frames"}} {
		if x.is {
			attrs = append(attrs, r.attribute("pprof.mapping.has_"+x.name, true, ""))
		}
	}
	b := pw.AppendUint(nil, 1, m.Start)
	b = pw.AppendUint(b, 2, m.Limit)
	b = pw.AppendUint(b, 3, m.Offset)
	b = pw.AppendUint(b, 4, r.string(m.File))
	return r.intern(mappingTable, r.mappings, pw.AppendPacked(b, 5, attrs))
}

func (r *Request) function(f *pprofile.Function) uint64 {
	b := pw.AppendUint(nil, 1, r.string(f.Name))
	b = pw.AppendUint(b, 2, r.string(f.SystemName))
	b = pw.AppendUint(b, 3, r.string(f.File))
	return r.intern(functionTable, r.functions, pw.AppendInt(b, 4, f.StartLine))
}

// tables are the entries of one profile's tables that its samples reach, as indices into the dictionary; -1: not reached so far.
type tables struct {
	profile                        *pprofile.Profile
	mappings, functions, locations []int64
}

func newTables(p *pprofile.Profile) *tables {
	t := &tables{p, make([]int64, len(p.Mappings)), make([]int64, len(p.Functions)), make([]int64, len(p.Locations))}
	for _, table := range [][]int64{t.mappings, t.functions, t.locations} {
		for i := range table {
			table[i] = -1
		}
	}
	return t
}

func (r *Request) mappingAt(t *tables, i int) uint64 {
	if t.mappings[i] < 0 {
		t.mappings[i] = int64(r.mapping(&t.profile.Mappings[i]))
	}
	return uint64(t.mappings[i])
}

func (r *Request) functionAt(t *tables, i int) uint64 {
	if t.functions[i] < 0 {
		t.functions[i] = int64(r.function(&t.profile.Functions[i]))
	}
	return uint64(t.functions[i])
}

func (r *Request) locationAt(t *tables, i int) uint64 {
	if t.locations[i] < 0 {
		t.locations[i] = int64(r.location(t, &t.profile.Locations[i]))
	}
	return uint64(t.locations[i])
}

func (r *Request) location(t *tables, l *pprofile.Location) uint64 {
	b := r.key[:0]
	if l.Mapping != 0 {
		b = pw.AppendUint(b, 1, r.mappingAt(t, int(l.Mapping)-1))
	}
	b = pw.AppendUint(b, 2, l.Address)
	for _, x := range l.Lines {
		var line [32]byte
		m := pw.AppendUint(line[:0], 1, r.functionAt(t, int(x.Function)))
		m = pw.AppendInt(m, 2, x.Line)
		b = pw.AppendBytes(b, 3, pw.AppendInt(m, 3, x.Column))
	}
	if l.IsFolded {
		b = pw.AppendPacked(b, 4, []uint64{r.attribute("pprof.location.is_folded", true, "")})
	}
	r.key = b
	return r.intern(locationTable, r.locations, b)
}

// link returns the link of the labels, and the labels that remain.
func (r *Request) link(labels []pprofile.Label) (uint64, []pprofile.Label) {
	var trace, span []byte
	for _, l := range labels {
		switch {
		case l.Key == TraceIDLabel && len(l.Str) == 32:
			trace, _ = hex.DecodeString(l.Str)
		case l.Key == SpanIDLabel && len(l.Str) == 16:
			span, _ = hex.DecodeString(l.Str)
		}
	}
	if len(trace) != 16 || len(span) != 8 || r.options.NoLinks {
		return 0, labels
	}
	rest := make([]pprofile.Label, 0, len(labels))
	for _, l := range labels {
		if l.Key != TraceIDLabel && l.Key != SpanIDLabel {
			rest = append(rest, l)
		}
	}
	if r.options.DropSpan != nil {
		var id [8]byte
		copy(id[:], span)
		if r.options.DropSpan(id) {
			return 0, rest
		}
	}
	b := pw.AppendBytes(nil, 1, trace)
	return r.intern(linkTable, r.links, pw.AppendBytes(b, 2, span)), rest
}

// heads returns each sample of p without its value, and the sample's values are appended later for each type.
func (r *Request) heads(p *pprofile.Profile) [][]byte {
	t := newTables(p)
	heads := make([][]byte, len(p.Samples))
	for i := range p.Samples {
		heads[i] = r.head(&p.Samples[i], t)
	}
	return heads
}

func (r *Request) head(s *pprofile.Sample, t *tables) []byte {
	list := make([]uint64, len(s.Locations))
	for k, l := range s.Locations {
		list[k] = r.locationAt(t, int(l))
	}
	stack := r.intern(stackTable, r.stacks, pw.AppendPacked(nil, 1, list))
	link, labels := r.link(s.Labels)
	var attrs []uint64
	for _, l := range labels {
		if l.Str != "" {
			attrs = append(attrs, r.attribute(l.Key, l.Str, ""))
		} else {
			attrs = append(attrs, r.attribute(l.Key, l.Num, l.Unit))
		}
	}
	b := pw.AppendUint(nil, 1, stack)
	b = pw.AppendPacked(b, 2, attrs)
	return pw.AppendUint(b, 3, link)
}

func (r *Request) valueType(t pprofile.ValueType) []byte {
	b := pw.AppendUint(nil, 1, r.string(t.Type))
	return pw.AppendUint(b, 2, r.string(t.Unit))
}

func (r *Request) profileAttributes(p *pprofile.Profile) []uint64 {
	var attrs []uint64
	if len(p.Comments) > 0 {
		attrs = append(attrs, r.attribute("pprof.profile.comment", p.Comments, ""))
	}
	for _, x := range [][2]string{{"pprof.profile.name", p.Name}, {"pprof.profile.doc_url", p.DocURL},
		{"pprof.profile.drop_frames", p.DropFrames}, {"pprof.profile.keep_frames", p.KeepFrames}} {
		if x[1] != "" {
			attrs = append(attrs, r.attribute(x[0], x[1], ""))
		}
	}
	if p.DefaultType != "" && p.TypeIndex(p.DefaultType) < 0 {
		attrs = append(attrs, r.attribute("pprof.scope.default_sample_type", p.DefaultType, ""))
	}
	return attrs
}

// Add adds a profile as a scope of its own.
func (r *Request) Add(p *pprofile.Profile, s Scope) {
	heads := r.heads(p)
	attrs := r.profileAttributes(p)
	var id [16]byte
	if !r.options.NoIDs {
		rand.Read(id[:])
	}
	attributes := s.Attributes
	if p.TypeIndex(p.DefaultType) >= 0 {
		attributes = append(append([]KeyValue(nil), attributes...),
			KeyValue{"pprof.scope.default_sample_type", p.DefaultType})
	}
	scope := pw.AppendString(nil, 1, s.Name)
	scope = pw.AppendString(scope, 2, s.Version)
	scope = keyValues(scope, 3, attributes)
	b := pw.AppendBytes(nil, 1, scope)
	for t := range p.Types {
		m := pw.AppendBytes(nil, 1, r.valueType(p.Types[t]))
		for i := range p.Samples {
			m = pw.AppendBytes(m, 2, pw.AppendPacked(heads[i][:len(heads[i]):len(heads[i])], 4,
				[]uint64{uint64(p.Samples[i].Values[t])}))
		}
		m = pw.AppendFixed64(m, 3, uint64(p.Time))
		m = pw.AppendUint(m, 4, uint64(p.Duration))
		m = pw.AppendBytes(m, 5, r.valueType(p.PeriodType))
		m = pw.AppendInt(m, 6, p.Period)
		if !r.options.NoIDs {
			x := id
			x[15] ^= byte(t)
			m = pw.AppendBytes(m, 7, x[:])
		}
		b = pw.AppendBytes(b, 2, pw.AppendPacked(m, 11, attrs))
	}
	r.samples += len(p.Samples) * len(p.Types)
	r.scopes = append(r.scopes, b)
}

// Bytes returns the encoded request.
func (r *Request) Bytes() []byte {
	m := pw.AppendBytes(nil, 1, keyValues(nil, 1, r.resource))
	for _, s := range r.scopes {
		m = pw.AppendBytes(m, 2, s)
	}
	b := pw.AppendBytes(nil, 1, m)
	var dictionary []byte
	for _, t := range r.tables {
		dictionary = append(dictionary, t...)
	}
	return pw.AppendBytes(b, 2, dictionary)
}

// Response is what an OTLP server says about a request that it took.
type Response struct {
	Rejected int64
	Message  string
}

func (r Response) Error() string {
	return "OTLP partial success: " + strconv.FormatInt(r.Rejected, 10) + " profiles rejected: " + r.Message
}

// DecodeResponse reads an ExportProfilesServiceResponse.
func DecodeResponse(b []byte) (Response, error) {
	var out Response
	r := pw.NewReader(b)
	var f pw.Field
	for r.Next(&f) {
		if f.Number != 1 || f.Kind != pw.Bytes {
			continue
		}
		p := pw.NewReader(f.Bytes)
		for p.Next(&f) {
			switch f.Number {
			case 1:
				out.Rejected = int64(f.Uint)
			case 2:
				out.Message = string(f.Bytes)
			}
		}
		if p.Err() != nil {
			return out, p.Err()
		}
	}
	return out, r.Err()
}
