// SPDX-License-Identifier: Apache-2.0

package pprofile

import "sort"

// Truncated is the name of the frame that stands for what a limit has cut off. Totals stay right.
const Truncated = "[truncated]"

// merger collects samples of several profiles of this process in one.
type merger struct {
	p         *Profile
	mappings  map[Mapping]uint32 // index plus 1
	functions map[Function]uint32
	locations map[uint64]uint32
	samples   map[string]int
	key       []byte
}

// Merge returns the sum of profiles that have the same sample types; the first decides the rest. It covers the time from
// the start of the first, and the sum of the durations. nil if there are none.
func Merge(list []*Profile) *Profile {
	if len(list) == 0 {
		return nil
	}
	if len(list) == 1 {
		return list[0]
	}
	first := *list[0]
	first.Samples, first.Mappings, first.Locations, first.Functions, first.Duration = nil, nil, nil, nil, 0
	m := merger{p: &first, mappings: map[Mapping]uint32{}, functions: map[Function]uint32{}, locations: map[uint64]uint32{},
		samples: map[string]int{}}
	for _, p := range list {
		if len(p.Types) != len(first.Types) {
			continue
		}
		m.add(p)
		first.Duration += p.Duration
	}
	return m.p
}

func (m *merger) function(f Function) uint32 {
	i, ok := m.functions[f]
	if !ok {
		i = uint32(len(m.p.Functions))
		m.functions[f] = i
		m.p.Functions = append(m.p.Functions, f)
	}
	return i
}

func (m *merger) location(p *Profile, l *Location, key uint64) uint32 {
	i, ok := m.locations[key]
	if ok {
		return i
	}
	x := Location{Address: l.Address, IsFolded: l.IsFolded}
	if l.Mapping != 0 {
		mapping := p.Mappings[l.Mapping-1]
		if x.Mapping, ok = m.mappings[mapping]; !ok {
			m.p.Mappings = append(m.p.Mappings, mapping)
			x.Mapping = uint32(len(m.p.Mappings))
			m.mappings[mapping] = x.Mapping
		}
	}
	for _, line := range l.Lines {
		x.Lines = append(x.Lines, Line{m.function(p.Functions[line.Function]), line.Line, line.Column})
	}
	i = uint32(len(m.p.Locations))
	m.locations[key] = i
	m.p.Locations = append(m.p.Locations, x)
	return i
}

func (m *merger) add(p *Profile) {
	keys := p.locationKeys()
	for i := range p.Samples {
		s := &p.Samples[i]
		sortLabels(s.Labels)
		m.key = sampleKey(m.key[:0], s, keys)
		if k, ok := m.samples[string(m.key)]; ok {
			for t, v := range s.Values {
				m.p.Samples[k].Values[t] += v
			}
			continue
		}
		x := Sample{Values: append([]int64(nil), s.Values...), Labels: s.Labels, Locations: make([]uint32, len(s.Locations))}
		for k, l := range s.Locations {
			x.Locations[k] = m.location(p, &p.Locations[l], keys[l])
		}
		m.samples[string(m.key)] = len(m.p.Samples)
		m.p.Samples = append(m.p.Samples, x)
	}
}

// Delta remembers the counts of a profile that counts since the start of the program.
type Delta struct {
	before map[string][]int64
	Time   int64 // of the profile before, 0: none yet
}

func isCumulative(t string) bool {
	return t == "alloc_objects" || t == "alloc_space" || t == "contentions" || t == "delay"
}

// Apply changes p to what happened since the profile before; types that are not cumulative stay as they are. Samples of which
// nothing is left are removed. The first profile is only remembered: its cumulative types become 0.
func (d *Delta) Apply(p *Profile) {
	first := d.before == nil
	now := make(map[string][]int64, len(p.Samples))
	keys := p.locationKeys()
	cumulative := make([]bool, len(p.Types))
	for i, t := range p.Types {
		cumulative[i] = isCumulative(t.Type)
	}
	at := make([]string, len(p.Samples))
	var key []byte
	for i := range p.Samples {
		s := &p.Samples[i]
		sortLabels(s.Labels)
		key = sampleKey(key[:0], s, keys)
		at[i] = string(key)
		if sum, ok := now[at[i]]; ok {
			for t, v := range s.Values {
				sum[t] += v
			}
		} else {
			now[at[i]] = append([]int64(nil), s.Values...)
		}
	}
	kept := p.Samples[:0]
	done := make(map[string]bool, len(p.Samples))
	for i := range p.Samples {
		s := p.Samples[i]
		old, any := d.before[at[i]], false
		for t := range s.Values {
			switch {
			case !cumulative[t]:
			case first || done[at[i]]:
				s.Values[t] = 0
			default:
				s.Values[t] = now[at[i]][t]
				if old != nil && s.Values[t] >= old[t] {
					s.Values[t] -= old[t]
				}
			}
			any = any || s.Values[t] != 0
		}
		done[at[i]] = true
		if any {
			kept = append(kept, s)
		}
	}
	p.Samples = kept
	if !first && p.Time > d.Time {
		p.Duration = p.Time - d.Time
		p.Time, d.Time = d.Time, p.Time
	} else {
		d.Time = p.Time
	}
	d.before = now
}

// KeepSamples removes samples of which keep says false. stack has the functions, the leaf first; it is valid during the call.
func (p *Profile) KeepSamples(keep func(stack []string) bool) {
	var stack []string
	kept := p.Samples[:0]
	for _, s := range p.Samples {
		stack = stack[:0]
		for _, l := range s.Locations {
			for _, line := range p.Locations[l].Lines {
				stack = append(stack, p.Functions[line.Function].Name)
			}
		}
		if keep(stack) {
			kept = append(kept, s)
		}
	}
	p.Samples = kept
}

// LimitDepth cuts stacks to the depth frames that are nearest to the leaf; the frame Truncated then stands for the callers.
func (p *Profile) LimitDepth(depth int) {
	cut := -1
	for i := range p.Samples {
		s := &p.Samples[i]
		if depth <= 0 || len(s.Locations) <= depth {
			continue
		}
		if cut < 0 {
			cut = p.truncatedLocation()
		}
		s.Locations = append(s.Locations[:depth:depth], uint32(cut))
	}
}

func (p *Profile) truncatedLocation() int {
	p.Functions = append(p.Functions, Function{Name: Truncated})
	p.Locations = append(p.Locations, Location{Lines: []Line{{Function: uint32(len(p.Functions) - 1)}}})
	return len(p.Locations) - 1
}

// LimitSamples keeps the n samples with the largest shares of the totals; the others become one sample of the frame
// Truncated. It returns how many samples that one stands for.
func (p *Profile) LimitSamples(n int) int {
	if n <= 0 || len(p.Samples) <= n {
		return 0
	}
	totals := make([]float64, len(p.Types))
	for i := range totals {
		totals[i] = float64(p.Total(i))
	}
	weights := make([]float64, len(p.Samples))
	order := make([]int, len(p.Samples))
	for i := range p.Samples {
		order[i] = i
		for t, v := range p.Samples[i].Values {
			if totals[t] > 0 {
				weights[i] += float64(v) / totals[t]
			}
		}
	}
	sort.SliceStable(order, func(i, k int) bool { return weights[order[i]] > weights[order[k]] })
	kept := make([]Sample, 0, n)
	for _, i := range order[:n-1] {
		kept = append(kept, p.Samples[i])
	}
	rest := Sample{Values: make([]int64, len(p.Types)), Locations: []uint32{uint32(p.truncatedLocation())}}
	for _, i := range order[n-1:] {
		for t, v := range p.Samples[i].Values {
			rest.Values[t] += v
		}
	}
	p.Samples = append(kept, rest)
	return len(order) - n + 1
}

// Difference returns after minus before, without samples that did not change. It covers the time between the two.
func Difference(before, after *Profile) *Profile {
	for i := range before.Samples {
		for t := range before.Samples[i].Values {
			before.Samples[i].Values[t] = -before.Samples[i].Values[t]
		}
	}
	p := Merge([]*Profile{after, before})
	p.Time, p.Duration = before.Time, after.Time-before.Time
	kept := p.Samples[:0]
	for _, s := range p.Samples {
		for _, v := range s.Values {
			if v != 0 {
				kept = append(kept, s)
				break
			}
		}
	}
	p.Samples = kept
	return p
}
