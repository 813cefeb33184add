package identity

import (
	"os"
	"slices"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/data/datatest"
)

// TestFiles_ModulesOfPolicies has a policy in Python that imports modules beside it, one of which imports
// another and one of which is a folder. All count, whatever else lies there does not, and a run is
// another one when any of them changes or goes.
func TestFiles_ModulesOfPolicies(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	texts := map[string]string{
		"policy.py":         "import os, tools as t\nfrom rules.best import Best\nimport fedpace\n",
		"tools.py":          "def f():\n    from deep import K\n",
		"deep.py":           "import tools\nK = 1\n",
		"rules/__init__.py": "",
		"rules/best.py":     "class Best: pass\n",
		"other.py":          "x = 1\n",
	}
	for name, text := range texts {
		datatest.Put(t, dir, name, []byte(text))
	}
	c, err := config.Load("", []string{"select={rule: python, path: policy.py}"})
	if err != nil {
		t.Fatal(err)
	}
	identity := func() *Identity {
		files, err := Files(&c)
		if err != nil {
			t.Fatal(err)
		}
		return &Identity{Config: c, Files: files}
	}
	begun := identity()
	var paths []string
	for _, f := range begun.Files {
		paths = append(paths, f.Path)
	}
	slices.Sort(paths)
	want := []string{"deep.py", "policy.py", "rules/__init__.py", "rules/best.py", "tools.py"}
	if !slices.Equal(paths, want) {
		t.Errorf("%v, want %v", paths, want)
	}
	for name, text := range texts {
		datatest.Put(t, dir, name, []byte(text+"# changed\n"))
		d := begun.Difference(identity())
		counts := name != "other.py"
		if (d != nil) != counts || counts && !strings.Contains(d.Text, name) {
			t.Errorf("%s changed: %v", name, d)
		}
		datatest.Put(t, dir, name, []byte(text))
	}
	if err := os.Remove("deep.py"); err != nil {
		t.Fatal(err)
	}
	if d := begun.Difference(identity()); d == nil || !strings.Contains(d.Text, "deep.py") {
		t.Errorf("a module has gone: %v", d)
	}
}
