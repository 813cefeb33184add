package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// testCommand matches a go test command with a pattern of tests, as pages, comments and .ci have it. A
// pattern stands in quotes or is one word.
var testCommand = regexp.MustCompile("go test [^`\n]*-run[ =](?:'([^']+)'|([^ `')\",]+))[^`\n]*")

// packageOf matches the package of a command.
var packageOf = regexp.MustCompile(`\./([a-z][a-zA-Z0-9_/]*)`)

// testFunction matches the beginning of a test.
var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// Every pattern of tests that a page, a comment or .ci names matches a test of its package.
func TestTests_RunPatterns(t *testing.T) {
	root := filepath.Join("..", "..")
	known := map[string][]string{} // names of tests by folder, those of folders below it included
	namesIn := func(folder string) []string {
		if names, ok := known[folder]; ok {
			return names
		}
		var names []string
		err := filepath.WalkDir(filepath.Join(root, folder), func(file string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(file, "_test.go") {
				return err
			}
			text, err := os.ReadFile(file)
			for _, match := range testFunction.FindAllStringSubmatch(string(text), -1) {
				names = append(names, match[1])
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		known[folder] = names
		return names
	}
	commands := 0
	check := func(file, text string) {
		for _, match := range testCommand.FindAllStringSubmatch(text, -1) {
			pattern := match[1] + match[2]
			folder := packageOf.FindStringSubmatch(match[0])
			// XXX is for commands that play benchmarks alone, and %s for texts that a program completes.
			if folder == nil || pattern == "XXX" || pattern == "^$" || strings.Contains(pattern, "%s") {
				continue
			}
			commands++
			wanted, err := regexp.Compile(pattern)
			if err != nil {
				t.Errorf("%s: %s: %v", file, match[0], err)
				continue
			}
			if !slices.ContainsFunc(namesIn(strings.TrimSuffix(folder[1], "/")), wanted.MatchString) {
				t.Errorf("%s: no test of %s matches %q", file, folder[1], pattern)
			}
		}
	}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			hidden := name[0] == '.' && name != ".." && name != ".ci"
			if hidden || name[0] == '_' || name == "testdata" || name == "node_modules" {
				return filepath.SkipDir
			}
			return nil
		}
		inCI := filepath.Base(filepath.Dir(file)) == ".ci"
		if !inCI && filepath.Ext(name) != ".go" && filepath.Ext(name) != ".md" {
			return nil
		}
		text, err := os.ReadFile(file)
		check(file, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if commands < 15 {
		t.Errorf("%d commands were read: the project has more", commands)
	}
}
