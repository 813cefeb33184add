package main

import (
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// The whole site: each link of each page leads to a file of the site and to an anchor
// in it, each page can be reached from the first one, and nothing comes from elsewhere.
func TestTheSite(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	n, err := render(os.DirFS("../.."), out)
	if err != nil {
		t.Fatal(err)
	}
	text := map[string]string{}
	err = filepath.WalkDir(out, func(file string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".html") {
			return err
		}
		name, err := filepath.Rel(out, file)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(file)
		text[filepath.ToSlash(name)] = string(content)
		return err
	})
	if err != nil || n < 40 || len(text) != n {
		t.Fatalf("%d pages, %d files, %v", n, len(text), err)
	}
	link := regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	reached, queue := map[string]bool{"index.html": true}, []string{"index.html"}
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		for _, m := range link.FindAllStringSubmatch(text[name], -1) {
			u, err := url.Parse(strings.ReplaceAll(m[1], "&amp;", "&"))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if u.Scheme != "" || u.Host != "" {
				if !strings.HasPrefix(m[0], "href") {
					t.Errorf("%s loads %s", name, m[1])
				}
				continue
			}
			to := name
			if u.Path != "" {
				to = path.Join(path.Dir(name), u.Path)
			}
			if _, err := os.Stat(filepath.Join(out, to)); err != nil {
				t.Errorf("%s: %s leads nowhere", name, m[1])
			}
			if u.Fragment != "" && !strings.Contains(text[to], ` id="`+u.Fragment+`"`) {
				t.Errorf("%s: %s has no anchor %q", name, to, u.Fragment)
			}
			if _, isPage := text[to]; isPage && !reached[to] {
				reached[to], queue = true, append(queue, to)
			}
		}
		if strings.Count(text[name], "<script") != 1 || strings.Contains(text[name], ".md\"") {
			t.Errorf("%s has another script than that of the search, or a link to Markdown", name)
		}
	}
	for name := range text {
		if !reached[name] {
			t.Errorf("no link leads to %s", name)
		}
	}
	sections, err := os.ReadFile(filepath.Join(out, "sections.js"))
	if want := `{"Page":"Schedules of K and eta","Title":"All of them","Address":"docs/schedules.html#all-of-them","Text":"All of them`; err != nil || !strings.Contains(string(sections), want) {
		t.Errorf("%v, the search does not know %s", err, want)
	}
	tutorial := text["docs/tutorial.html"]
	for _, want := range []string{`<h1 id="tutorial-the-first-15-minutes">`, `<a href="../docs/index.html">`, `<img src="ui.png"`, `aria-current="page"`, `class="language-output"`} {
		if !strings.Contains(tutorial, want) {
			t.Errorf("the tutorial lacks %s", want)
		}
	}
}

// A link that leads nowhere is named with its page, and nothing is written.
func TestLinksThatLeadNowhere(t *testing.T) {
	for page, want := range map[string]string{
		"[a](none.md)":                 "docs/README.md: none.md is no file of the project",
		"[a](../docs)":                 "docs/README.md: ../docs is no file of the project",
		"[a](#none)":                   "docs/README.md: docs/README.md has no heading #none",
		"[a](../README.md#Fed)":        "docs/README.md: README.md has no heading #Fed",
		"![a](none.png)":               "docs/README.md: none.png is no file of the project",
		"# One\n\n# One\n\n[](#one-2)": "docs/README.md: docs/README.md has no heading #one-2",
	} {
		out := filepath.Join(t.TempDir(), "site")
		_, err := render(fstest.MapFS{"README.md": {Data: []byte("# fed\n")}, "docs/README.md": {Data: []byte(page)}}, out)
		if err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", page, err, want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%q: a site was written", page)
		}
	}
	if _, err := render(fstest.MapFS{}, t.TempDir()); err == nil || err.Error() != "there is no docs/README.md: run it in the project's folder" {
		t.Error(err)
	}
}
