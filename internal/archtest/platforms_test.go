package archtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/internal/testkit/slow"
)

// A release is for these platforms (Makefile), and its programs compile for each of them:
// types are checked, which takes seconds where a compilation takes minutes.
func TestPrograms_AllPlatforms(t *testing.T) {
	slow.Test(t, "it checks the types of the programs and of all that they import, for all platforms")
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(makefile), "\nPLATFORMS = ")
	line, _, _ := strings.Cut(rest, "\n")
	platforms := strings.Fields(line)
	if len(platforms) < 2 {
		t.Fatalf("Makefile names the platforms %q", line)
	}
	for _, platform := range platforms {
		t.Run(platform, func(t *testing.T) {
			t.Parallel()
			system, processor, _ := strings.Cut(strings.TrimSuffix(platform, "v7"), "-")
			if err := checkTypes(system, processor); err != nil {
				t.Error(err)
			}
		})
	}
}

// listed is a package as go list describes it.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
	Module          *struct{ Main bool }
}

// checkTypes checks the types of the programs for a platform: in this module those of
// functions' bodies, too.
func checkTypes(system, processor string) error {
	list := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap,Module", "fedpace/cmd/...")
	list.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+processor, "GOARM=7", "CGO_ENABLED=0")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	known := packages{"unsafe": types.Unsafe}
	for in := json.NewDecoder(strings.NewReader(string(out))); ; { // a package comes after what it imports
		var p listed
		if err := in.Decode(&p); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if p.ImportPath == "unsafe" {
			continue
		}
		known[p.ImportPath], err = known.check(&p, types.SizesFor("gc", processor))
		if err != nil {
			return err
		}
	}
}

// packages are those that are checked, by their paths.
type packages map[string]*types.Package

func (k packages) check(p *listed, sizes types.Sizes) (*types.Package, error) {
	ours := p.Module != nil && p.Module.Main
	files := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, f)
	}
	c := types.Config{Importer: imports{k, p.ImportMap}, IgnoreFuncBodies: !ours, Sizes: sizes}
	if !ours {
		c.Error = func(error) {} // it was released, and what we use of it is checked where we do
	}
	checked, err := c.Check(p.ImportPath, files, parsed, nil)
	if !ours {
		err = nil
	}
	return checked, err
}

// imports resolves a package's imports.
type imports struct {
	known    packages
	vendored map[string]string
}

func (i imports) Import(path string) (*types.Package, error) {
	if other := i.vendored[path]; other != "" {
		path = other
	}
	if p := i.known[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s is not listed", path)
}
