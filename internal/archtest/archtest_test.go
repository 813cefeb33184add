package archtest

import (
	"os"
	"path/filepath"
	"slices"
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

func TestImports_Table(t *testing.T) {
	for _, v := range violations(project(t), allowed) {
		t.Error(v)
	}
}

func TestPackages_DescribedOnce(t *testing.T) {
	for _, v := range undescribed(project(t)) {
		t.Error(v)
	}
}

// support are the folders of what only tests need: beside what they support, or in internal/testkit.
var support = []string{
	"actors/external/externaltest", "bus/bustest", "data/datatest", "experiment/runtest", "internal/testkit",
}

// isSupport reports whether a package lies in a folder of support.
func isSupport(name string) bool {
	return slices.ContainsFunc(support, func(folder string) bool { return matches(name, folder+"/...") })
}

// What only tests need is in no program.
func TestSupport_NotImported(t *testing.T) {
	for _, p := range project(t) {
		if isSupport(p.path) {
			continue
		}
		for _, imported := range p.imports {
			if isSupport(imported) {
				t.Errorf("%s imports %s, which is for tests", p.path, imported)
			}
		}
	}
}

// Coordinator and actors meet on the bus alone: neither imports the other at any depth.
func TestCoordinator_ImportsNoActors(t *testing.T) {
	all := project(t)
	for _, sides := range [][2]string{{"coordinator", "actors"}, {"actors", "coordinator"}} {
		for _, p := range all {
			if !matches(p.path, sides[0]+"/...") {
				continue
			}
			for _, reached := range reachable(all, p.path) {
				if matches(reached, sides[1]+"/...") {
					t.Errorf("%s imports %s, at some depth", p.path, reached)
				}
			}
		}
	}
}

// Metrics show a run and take no part in it: no package of them imports the bus, or anything of the
// coordinator that does, at any depth.
func TestMetrics_ImportNoBus(t *testing.T) {
	all := project(t)
	for _, p := range all {
		if !matches(p.path, "metrics/...") {
			continue
		}
		for _, reached := range reachable(all, p.path) {
			if matches(reached, "bus/...") || matches(reached, "coordinator/realdevices") || reached == "coordinator" {
				t.Errorf("%s imports %s, at some depth", p.path, reached)
			}
		}
	}
}

func TestViolations_Found(t *testing.T) {
	const nats = "github.com/nats-io/nats.go"
	table := `
# A comment.
core:
bus/...: core time
	github.com/nats-io/...
bus/gateway: bus
top: core bus/...
`
	good := []pkg{
		{path: "bus", imports: []string{"core", nats, "time"}},
		{path: "bus/gateway", imports: []string{"bus"}},
		{path: "bus/nats", imports: []string{"bus"}},
		{path: "core"},
		{path: "top", imports: []string{"bus/gateway", "core"}},
	}
	for _, test := range []struct {
		name   string
		change func(p map[string]*pkg)
		want   []string
	}{
		{"as the table says", func(map[string]*pkg) {}, nil},
		{"a core that tells the time", func(p map[string]*pkg) { p["core"].imports = []string{"time"} },
			[]string{"core imports time, which the line of core does not allow"}},
		{"a library that is new", func(p map[string]*pkg) { p["top"].imports = append(p["top"].imports, nats) },
			[]string{"top imports " + nats + ", which the line of top does not allow"}},
		{"a line of its own counts, not the folder's", func(p map[string]*pkg) { p["bus/gateway"].imports = []string{"bus", "core"} },
			[]string{"bus/gateway imports core, which the line of bus/gateway does not allow"}},
		{"an arrow upwards", func(p map[string]*pkg) { p["core"].imports = []string{"top"} },
			[]string{"core imports top, which the line of core does not allow"}},
		{"a package without a line", func(p map[string]*pkg) { p["top"].path = "side" },
			[]string{"side has no line in the table", "the table has a line for top, which holds no package"}},
		{"an entry that nothing uses", func(p map[string]*pkg) { p["bus"].imports = []string{"core", nats} },
			[]string{"the line of bus/... allows time, which nothing there imports"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var all []pkg
			byPath := map[string]*pkg{}
			for _, p := range good {
				p.imports = slices.Clone(p.imports)
				all = append(all, p)
			}
			for i := range all {
				byPath[all[i].path] = &all[i]
			}
			test.change(byPath)
			if diff := cmp.Diff(test.want, violations(all, table)); diff != "" {
				t.Error(diff)
			}
		})
	}
	upwards := []pkg{{path: "a", imports: []string{"b"}}, {path: "b"}}
	if diff := cmp.Diff([]string{"a imports b, whose line is below its own"}, violations(upwards, "a: b\nb:\n")); diff != "" {
		t.Error(diff)
	}
}

// Files as they stand in a folder, down to the sentences about them.
func TestProject_Read(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                "module example\n\ngo 1.26\n",
		"described/doc.go":      "// Package described is.\npackage described\n",
		"described/a.go":        "package described\n\nimport (\n\t\"fmt\"\n\t\"os\"\n\n\t_ \"example/bare\"\n\t_ \"example.org/x/y\"\n)\n\nvar _ = fmt.Sprint(os.Args)\n",
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
		{path: "bare"},
		{path: "described", imports: []string{"bare", "example.org/x/y", "os"}, comments: []string{"doc.go"}},
		{path: "elsewhere", comments: []string{"x.go"}},
		{path: "twice", tests: true, comments: []string{"doc.go", "x_test.go"}},
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
