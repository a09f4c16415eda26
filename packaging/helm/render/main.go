// SPDX-License-Identifier: Apache-2.0

// Command render lints a Helm chart, renders it and decodes every object strictly, with Helm's and Kubernetes' own libraries:
//
//	render [-values FILE] [-set KEY=VALUE]... [-name NAME] [-namespace NS] CHART > manifests.yaml
//
// A warning of the linter, an unknown field and a value of the wrong type are errors.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"sort"
	"strings"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/cli/values"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/getter"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"helm.sh/helm/v3/pkg/releaseutil"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
)

type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

func main() {
	log.SetFlags(0)
	log.SetOutput(io.Discard) // the loader reports every symbolic link
	var sets list
	file := flag.String("values", "", "file with values")
	name := flag.String("name", "wick", "name of the release")
	namespace := flag.String("namespace", "wick", "namespace of the release")
	flag.Var(&sets, "set", "one value")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *name, *namespace, *file, sets); err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
}

func run(path, name, namespace, file string, sets []string) error {
	given, err := (&values.Options{ValueFiles: files(file), Values: sets}).MergeValues(getter.Providers{})
	if err != nil {
		return err
	}
	if err := check(path, namespace, given); err != nil {
		return err
	}
	rendered, err := render(path, name, namespace, given)
	if err != nil {
		return err
	}
	return decode(rendered)
}

// check is for a directory: the linter does not read packages.
func check(path, namespace string, given map[string]any) error {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return err
	}
	for _, m := range lint.AllWithKubeVersion(path, given, namespace, nil).Messages {
		// A chart without an icon is an information, not a warning.
		if m.Severity > support.InfoSev {
			err = errors.Join(err, m)
		}
	}
	return err
}

func files(file string) []string {
	if file == "" {
		return nil
	}
	return []string{file}
}

func render(path, name, namespace string, given map[string]any) (string, error) {
	chart, err := loader.Load(path)
	if err != nil {
		return "", err
	}
	options := chartutil.ReleaseOptions{Name: name, Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, given, options, chartutil.DefaultCapabilities)
	if err != nil {
		return "", err
	}
	texts, err := (engine.Engine{Strict: true}).Render(chart, all)
	if err != nil {
		return "", err
	}
	names := make([]string, 0, len(texts))
	for n := range texts {
		if !strings.HasSuffix(n, "NOTES.txt") {
			names = append(names, n)
		}
	}
	sort.Strings(names)
	var out strings.Builder
	for _, n := range names {
		fmt.Fprintf(&out, "---\n%s\n", texts[n])
	}
	return out.String(), nil
}

// decode writes the objects in the order in which Helm creates them.
func decode(text string) error {
	types := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(types), monitoring.AddToScheme(types)); err != nil {
		return err
	}
	decoder := serializer.NewCodecFactory(types, serializer.EnableStrict).UniversalDeserializer()
	parts := releaseutil.SplitManifests(text)
	hooks, objects, err := releaseutil.SortManifests(parts, nil, releaseutil.InstallOrder)
	if err != nil {
		return err
	}
	if len(hooks) > 0 {
		return errors.New("the chart has hooks, which plain manifests cannot have")
	}
	var out bytes.Buffer
	for _, o := range objects {
		if _, _, err := decoder.Decode([]byte(o.Content), nil, nil); err != nil {
			return fmt.Errorf("%s: %w\n%s", o.Head.Kind, err, o.Content)
		}
		fmt.Fprintf(&out, "---\n%s\n", strings.TrimSpace(o.Content))
	}
	_, err = os.Stdout.Write(out.Bytes())
	return err
}
