package identity

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/data/datatest"
	"fedpace/experiment/folder"
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

// TestFiles_ImportsInAnyForm has a script that imports modules in every form of Python's grammar, through
// links, too: all count.
func TestFiles_ImportsInAnyForm(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	modules := []string{"plain", "behind", "within", "joined", "split", "called", "hidden", "linked", "pack/one"}
	for _, module := range modules {
		datatest.Put(t, dir, "elsewhere/"+module+".py", []byte("n = 1\n"))
	}
	err := errors.Join(
		os.CopyFS("work", os.DirFS("elsewhere")),
		os.RemoveAll("work/pack"),
		os.Symlink("../elsewhere/pack", "work/pack"),
		os.Remove("work/linked.py"),
		os.Symlink("../elsewhere/linked.py", "work/linked.py"),
	)
	if err != nil {
		t.Fatal(err)
	}
	datatest.Put(t, dir, "work/policy.py", []byte("import plain; import behind\n"+
		"if True: from within import n\n"+
		"import os, \\\n  joined\n"+
		"from \\\r\n  split import n\n"+
		"x = importlib.import_module('called')\n"+
		"y = __import__( \"hidden\" )\n"+
		"\timport pack.one as p, linked\n"))
	c, err := config.Load("", []string{"select={rule: python, path: work/policy.py}"})
	if err != nil {
		t.Fatal(err)
	}
	files, err := Files(&c)
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range modules {
		path := filepath.Join("work", module+".py")
		if !slices.ContainsFunc(files, func(f folder.InputFile) bool { return f.Path == path }) {
			t.Errorf("%s is missing: %v", path, files)
		}
	}
}
