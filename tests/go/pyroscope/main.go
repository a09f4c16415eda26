// SPDX-License-Identifier: Apache-2.0

// Pyroscope asks a server the questions that Grafana's data source asks, with Pyroscope's own generated client, and prints
// the answers as JSON. Usage: pyroscope URL json|proto START_MS END_MS SPAN_ID
package main

import (
	"context"
	"encoding/json"
	"log"
	"net/http"
	"os"
	"strconv"

	"connectrpc.com/connect"
	querierv1 "github.com/grafana/pyroscope/api/gen/proto/go/querier/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/querier/v1/querierv1connect"
	typesv1 "github.com/grafana/pyroscope/api/gen/proto/go/types/v1"
)

const cpu = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"

func must[T any](r *connect.Response[T], err error) *T {
	if err != nil {
		log.Fatal(err)
	}
	return r.Msg
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		log.Fatal(err)
	}
	return n
}

func main() {
	var options []connect.ClientOption
	if os.Args[2] == "json" {
		options = append(options, connect.WithProtoJSON())
	}
	c := querierv1connect.NewQuerierServiceClient(http.DefaultClient, os.Args[1], options...)
	ctx, start, end, span := context.Background(), number(os.Args[3]), number(os.Args[4]), os.Args[5]
	selector := `{service_name="shop"}`
	out := map[string]any{}

	out["types"] = must(c.ProfileTypes(ctx, connect.NewRequest(&querierv1.ProfileTypesRequest{Start: start, End: end}))).ProfileTypes
	out["names"] = must(c.LabelNames(ctx, connect.NewRequest(&typesv1.LabelNamesRequest{Matchers: []string{selector}, Start: start, End: end}))).Names
	out["values"] = must(c.LabelValues(ctx, connect.NewRequest(&typesv1.LabelValuesRequest{Name: "service_name", Matchers: []string{`{__profile_type__="` + cpu + `"}`}, Start: start, End: end}))).Names
	out["series"] = must(c.Series(ctx, connect.NewRequest(&querierv1.SeriesRequest{LabelNames: []string{"service_name", "__profile_type__"}, Start: start, End: end}))).LabelsSet
	sel := &querierv1.SelectMergeStacktracesRequest{ProfileTypeID: cpu, LabelSelector: selector, Start: start, End: end}
	out["flame"] = must(c.SelectMergeStacktraces(ctx, connect.NewRequest(sel))).Flamegraph
	out["diff"] = must(c.Diff(ctx, connect.NewRequest(&querierv1.DiffRequest{Left: sel, Right: sel}))).Flamegraph
	out["span"] = must(c.SelectMergeSpanProfile(ctx, connect.NewRequest(&querierv1.SelectMergeSpanProfileRequest{ProfileTypeID: cpu, LabelSelector: selector, Start: start, End: end, SpanSelector: []string{span}}))).Flamegraph
	out["points"] = must(c.SelectSeries(ctx, connect.NewRequest(&querierv1.SelectSeriesRequest{ProfileTypeID: cpu, LabelSelector: selector, Start: start, End: end, Step: 15, GroupBy: []string{"service_name"}}))).Series
	out["heatmap"] = must(c.SelectHeatmap(ctx, connect.NewRequest(&querierv1.SelectHeatmapRequest{ProfileTypeID: cpu, LabelSelector: selector, Start: start, End: end, Step: 15}))).Series
	out["stats"] = must(c.GetProfileStats(ctx, connect.NewRequest(&typesv1.GetProfileStatsRequest{})))
	if os.Args[2] == "proto" {
		p := must(c.SelectMergeProfile(ctx, connect.NewRequest(&querierv1.SelectMergeProfileRequest{ProfileTypeID: cpu, LabelSelector: selector, Start: start, End: end})))
		out["profile"] = map[string]any{"samples": len(p.Sample), "strings": p.StringTable}
	}
	_, err := c.SelectMergeStacktraces(ctx, connect.NewRequest(&querierv1.SelectMergeStacktracesRequest{ProfileTypeID: cpu, LabelSelector: `{a=`, Start: start, End: end}))
	out["error"] = connect.CodeOf(err).String()
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		log.Fatal(err)
	}
}
