package plugins

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// An outsider copies an example into a module of its own, requires fedpace from a clone, and has
// a program with the plug-in: no example rests on a package that only fedpace may import.
func TestPlugins_InModuleOutside(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	module := t.TempDir()
	names := copyPlugins(t, module)
	writeModule(t, module, root)
	writeMain(t, module, names)
	writeWorkspace(t, module, root)

	program := filepath.Join(t.TempDir(), "outside")
	command(t, module, "go", "build", "-o", program, ".")
	for _, file := range []string{"everything.yaml", "points.csv"} {
		copyFile(t, file, filepath.Join(module, file))
	}
	command(t, module, program, "run", "--config", "everything.yaml", "--set", "http=", "--out", filepath.Join(module, "run"))
	if _, err := os.Stat(filepath.Join(module, "run", "reach.csv")); err != nil {
		t.Errorf("the sink of an outside module wrote nothing: %v", err)
	}
}

// copyPlugins puts each example into a package of its own below module and returns their folders.
func copyPlugins(t *testing.T, module string) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name, _ := strings.CutSuffix(file, ".go")
		if name == "doc" || strings.HasSuffix(name, "_test") {
			continue
		}
		names = append(names, name)
		copyFile(t, file, filepath.Join(module, name, file))
	}
	return names
}

// writeModule makes module a module that requires fedpace from its checkout, with the same
// versions of all other modules, so that nothing is fetched that fedpace does not have.
func writeModule(t *testing.T, module, root string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	_, required, found := strings.Cut(string(text), "\nrequire (")
	if !found {
		t.Fatal("go.mod requires nothing")
	}
	head := "module example.org/outside\n\ngo 1.26.0\n\nrequire fedpace v0.0.0\n\nreplace fedpace => " + root + "\n\nrequire ("
	if err := os.WriteFile(filepath.Join(module, "go.mod"), []byte(head+required), 0o666); err != nil {
		t.Fatal(err)
	}
	copyFile(t, filepath.Join(root, "go.sum"), filepath.Join(module, "go.sum"))
}

// writeWorkspace has the go command take fedpace for a module that is worked on, as it is here. It may import
// no more then, but what is compiled here need not be compiled once more as a version of fedpace.
func writeWorkspace(t *testing.T, module, root string) {
	t.Helper()
	text := "go 1.26.0\n\nuse (\n\t.\n\t" + root + "\n)\n"
	if err := os.WriteFile(filepath.Join(module, "go.work"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// writeMain writes the program: fedpace's command line with all plug-ins.
func writeMain(t *testing.T, module string, names []string) {
	t.Helper()
	var text strings.Builder
	text.WriteString("package main\n\nimport (\n\t\"fedpace/cmd\"\n\n")
	for _, name := range names {
		text.WriteString("\t_ \"example.org/outside/" + name + "\"\n")
	}
	text.WriteString(")\n\nfunc main() { cmd.Main() }\n")
	if err := os.WriteFile(filepath.Join(module, "main.go"), []byte(text.String()), 0o666); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, content, 0o666); err != nil {
		t.Fatal(err)
	}
}

// command runs a program in a folder and fails the test with its output if it fails.
func command(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GOWORK="+filepath.Join(dir, "go.work"))
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}
