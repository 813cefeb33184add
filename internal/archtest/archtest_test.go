package archtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func project(t *testing.T) []pkg {
	t.Helper()
	all, err := load(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestImportsPointOneWay(t *testing.T) {
	for _, v := range violations(project(t), rules) {
		t.Error(v)
	}
}

func TestEveryPackageIsDescribedOnce(t *testing.T) {
	for _, v := range undescribed(project(t)) {
		t.Error(v)
	}
}

// A rule for a folder that has gone would pass for ever.
func TestRulesSpeakOfPackagesThatExist(t *testing.T) {
	all := project(t)
	for _, r := range rules {
		for _, pattern := range r.from {
			found := false
			for _, p := range all {
				found = found || matches(p.path, []string{pattern})
			}
			if !found {
				t.Errorf("a rule speaks of %s, which holds no package", pattern)
			}
		}
	}
}

// The project's own rules, given packages that break them.
func TestViolationsAreFound(t *testing.T) {
	const nats, prometheus = "github.com/nats-io/nats.go", "github.com/prometheus/client_golang/prometheus"
	for _, test := range []struct {
		name string
		all  []pkg
		want []string
	}{
		{"as designed", []pkg{
			{path: "cmd/fedpace", imports: []string{"experiment", "github.com/spf13/cobra"}},
			{path: "experiment", imports: []string{"coordinator", "actors", "metrics", "github.com/goccy/go-yaml"}},
			{path: "coordinator", imports: []string{"bus", "simclock", "coordinator/round", "coordinator/aggregate"}},
			{path: "coordinator/round", imports: []string{"internal/keyed", "coordinator/schedule"}},
			{path: "coordinator/aggregate", imports: []string{"actors/learn"}},
			{path: "actors", imports: []string{"bus", "actors/learn", "actors/data", "coordinator/aggregate"}},
			{path: "actors/data", imports: []string{"internal/keyed", "github.com/parquet-go/parquet-go"}},
			{path: "metrics", imports: []string{"coordinator/round", prometheus}},
			{path: "bus", imports: []string{nats, "google.golang.org/protobuf/proto"}},
		}, nil},
		{"a core with a library", []pkg{{path: "coordinator/round", imports: []string{"golang.org/x/sync/errgroup"}}},
			[]string{"coordinator/round imports golang.org/x/sync/errgroup: the core is a pure state machine on the standard library"}},
		{"a clock with a project's package", []pkg{{path: "simclock", imports: []string{"internal/keyed"}}},
			[]string{"simclock imports internal/keyed: it is pure and stands on the standard library alone"}},
		{"a library that imports its user", []pkg{{path: "experiment", imports: []string{"cmd/fedpace"}}},
			[]string{"experiment imports cmd/fedpace: a library does not know the command line"}},
		{"a bus that knows the coordinator", []pkg{{path: "bus", imports: []string{"coordinator"}}},
			[]string{"bus imports coordinator: the bus carries messages for coordinator and actors and depends on neither"}},
		{"actors that know the coordinator by a detour", []pkg{{path: "actors", imports: []string{"helper"}}, {path: "helper", imports: []string{"coordinator"}}},
			[]string{"actors imports helper imports coordinator: actors answer the coordinator over the bus alone"}},
		{"Prometheus in a model, below a helper", []pkg{{path: "actors/learn", imports: []string{"metrics/page"}}, {path: "metrics/page", imports: []string{prometheus}}},
			[]string{
				"actors/learn imports metrics/page: it knows nothing of NATS, of Prometheus, or of who uses it",
				"actors/learn imports metrics/page imports " + prometheus + ": it knows nothing of NATS, of Prometheus, or of who uses it",
			}},
		{"NATS outside its folders", []pkg{{path: "experiment", imports: []string{nats}}},
			[]string{"experiment imports " + nats + ": NATS is the matter of the bus and of those who drive it"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, violations(test.all, rules)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Files as they stand in a folder, down to the sentences about them.
func TestAProjectIsRead(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                "module example\n\ngo 1.26\n",
		"described/doc.go":      "// Package described is.\npackage described\n",
		"described/a.go":        "package described\n\nimport (\n\t\"fmt\"\n\n\t_ \"example/bare\"\n\t_ \"example.org/x/y\"\n)\n\nvar _ = fmt.Sprint\n",
		"described/a_test.go":   "package described\n\nimport _ \"example/twice\"\n",
		"described/gen.go":      "//go:build ignore\n\n// A generator.\npackage main\n\nimport _ \"example/elsewhere\"\n",
		"bare/bare.go":          "// Not the package's: a line stands between.\n\npackage bare\n",
		"elsewhere/x.go":        "// Package elsewhere is described in x.go.\npackage elsewhere\n",
		"twice/doc.go":          "// Package twice is.\npackage twice\n",
		"twice/x_test.go":       "// Package twice is, again.\npackage twice\n",
		"testdata/ignored/x.go": "not Go",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	all, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]pkg{
		{"bare", nil, nil},
		{"described", []string{"bare", "example.org/x/y"}, []string{"doc.go"}},
		{"elsewhere", nil, []string{"x.go"}},
		{"twice", nil, []string{"doc.go", "x_test.go"}},
	}, all, cmp.AllowUnexported(pkg{})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{
		"bare has no package comment: write what it promises in bare/doc.go",
		"elsewhere has its package comment in x.go: move it to doc.go",
		"twice has package comments in doc.go, x_test.go: keep that of doc.go",
	}, undescribed(all)); diff != "" {
		t.Error(diff)
	}
}
