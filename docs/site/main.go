package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

var (
	//go:embed style.css
	style []byte
	//go:embed search.js
	search []byte
	//go:embed page.html
	frame string
)

// index is the page whose headings and links are the menu of all others.
const index = "docs/README.md"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "site: want one folder to write to, as in go run ./docs/site OUT")
		os.Exit(2)
	}
	n, err := render(os.DirFS("."), os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	fmt.Printf("%d pages, %s to begin with\n", n, filepath.Join(os.Args[1], "index.html"))
}

// page is a Markdown file.
type page struct {
	name   string // in the project, with slashes
	source []byte
	root   ast.Node
	Title  string
	Parts  []heading // of level 2
	Found  []found
	ids    map[string]bool
}

type heading struct{ ID, Text string }

// found is a part of a page that a search may find.
type found struct{ Page, Title, Address, Text string }

// site is all pages, and the other files that they link to.
type site struct {
	project  fs.FS
	markdown goldmark.Markdown
	pages    map[string]*page
	files    map[string]bool
	problems []error
}

// render writes the website and returns the number of its pages.
func render(project fs.FS, out string) (int, error) {
	s := &site{
		project:  project,
		markdown: goldmark.New(goldmark.WithExtensions(extension.GFM)),
		pages:    map[string]*page{},
		files:    map[string]bool{},
	}
	var names []string
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*.md", "examples/*/*.md", "python/*.md", "data/*/testdata/*.md"} {
		found, err := fs.Glob(project, pattern)
		if err != nil {
			return 0, err
		}
		for _, name := range found {
			if err := s.read(name); err != nil {
				return 0, err
			}
		}
		names = append(names, found...)
	}
	if s.pages[index] == nil {
		return 0, fmt.Errorf("there is no %s: run it in the project's folder", index)
	}
	menu := s.menu()
	for _, name := range names {
		s.relink(s.pages[name])
	}
	if err := errors.Join(s.problems...); err != nil {
		return 0, err
	}
	for _, name := range names {
		if err := s.write(s.pages[name], menu, out); err != nil {
			return 0, err
		}
	}
	for name := range s.files {
		content, err := fs.ReadFile(project, name)
		if err := errors.Join(err, put(out, name, content)); err != nil {
			return 0, err
		}
	}
	var all []found
	for _, name := range names {
		all = append(all, s.pages[name].Found...)
	}
	data, err := json.Marshal(all)
	return len(names), errors.Join(
		err,
		put(out, "style.css", style),
		put(out, "search.js", search),
		put(out, "sections.js", append([]byte("const sections = "), data...)),
	)
}

// read parses a page. Its headings have the anchors that GitHub gives them.
func (s *site) read(name string) error {
	source, err := fs.ReadFile(s.project, name)
	if err != nil {
		return err
	}
	p := &page{
		name:   name,
		source: source,
		Title:  name,
		ids:    map[string]bool{},
	}
	s.pages[name], p.root = p, s.markdown.Parser().Parse(text.NewReader(source))
	err = ast.Walk(p.root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		h, ok := n.(*ast.Heading)
		if !ok || !entering {
			return ast.WalkContinue, nil
		}
		words := plain(h, source)
		id := anchor(words)
		for i := 1; p.ids[id]; i++ {
			id = anchor(words) + "-" + strconv.Itoa(i)
		}
		p.ids[id] = true
		h.SetAttributeString("id", []byte(id))
		switch h.Level {
		case 1:
			p.Title = words
		case 2:
			p.Parts = append(p.Parts, heading{id, words})
		}
		return ast.WalkSkipChildren, nil
	})
	p.find()
	return err
}

// find lists the parts of a page, each with its words: as they are written, without marks.
func (p *page) find() {
	from := 0
	end := func(at int) {
		if n := len(p.Found); n > 0 {
			p.Found[n-1].Text = marks.ReplaceAllString(string(p.source[from:at]), " ")
		}
		from = at
	}
	for n := p.root.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok && h.Lines().Len() > 0 {
			id, _ := h.AttributeString("id")
			end(h.Lines().At(0).Start)
			p.Found = append(p.Found, found{p.Title, plain(h, p.source), fmt.Sprintf("%s#%s", address(p.name), id), ""})
		}
	}
	end(len(p.source))
}

var marks = regexp.MustCompile("[`|*#\\s]+|\\]\\([^)]*\\)|--+")

var noAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

func anchor(heading string) string {
	return strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

func plain(n ast.Node, source []byte) (words string) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			words += string(t.Segment.Value(source))
		}
		words += plain(c, source)
	}
	return words
}

type section struct {
	Title string
	Pages []*page
}

// menu is the index: each of its headings with the pages below it, each page once.
func (s *site) menu() []section {
	list := []section{{Title: "Documentation", Pages: []*page{s.pages["README.md"], s.pages[index]}}}
	seen := map[*page]bool{nil: true, list[0].Pages[0]: true, list[0].Pages[1]: true}
	_ = ast.Walk(s.pages[index].root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if h, ok := n.(*ast.Heading); ok && entering && h.Level == 2 {
			list = append(list, section{Title: strings.TrimSuffix(plain(h, s.pages[index].source), " ...")})
		} else if link, ok := n.(*ast.Link); ok && entering {
			to, _, _ := strings.Cut(string(link.Destination), "#")
			if p := s.pages[path.Join("docs", to)]; !seen[p] {
				seen[p] = true
				list[len(list)-1].Pages = append(list[len(list)-1].Pages, p)
			}
		}
		return ast.WalkContinue, nil
	})
	return list
}

// relink turns links to pages into links to their HTML, and notes the other files that
// the page needs.
func (s *site) relink(p *page) {
	_ = ast.Walk(p.root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if link, ok := n.(*ast.Link); ok && entering {
			link.Destination = s.destination(p, link.Destination)
		} else if image, ok := n.(*ast.Image); ok && entering {
			image.Destination = s.destination(p, image.Destination)
		}
		return ast.WalkContinue, nil
	})
}

func (s *site) destination(p *page, link []byte) []byte {
	to, id, _ := strings.Cut(string(link), "#")
	if strings.Contains(to, "://") {
		return link
	}
	name := p.name
	if to != "" {
		name = path.Join(path.Dir(p.name), to)
	}
	target := s.pages[name]
	if target == nil {
		if info, err := fs.Stat(s.project, name); err != nil || !info.Mode().IsRegular() {
			s.problems = append(s.problems, fmt.Errorf("%s: %s is no file of the project", p.name, link))
		}
		s.files[name] = true
		return link
	}
	if id != "" && !target.ids[id] {
		s.problems = append(s.problems, fmt.Errorf("%s: %s has no heading #%s", p.name, name, id))
	}
	return []byte(strings.TrimSuffix(relative(p.name, name)+"#"+id, "#"))
}

func address(name string) string {
	if path.Base(name) == "README.md" {
		return path.Join(path.Dir(name), "index.html")
	}
	return strings.TrimSuffix(name, ".md") + ".html"
}

func relative(from, to string) string {
	return strings.Repeat("../", strings.Count(from, "/")) + address(to)
}

func (s *site) write(p *page, menu []section, out string) error {
	var body, file bytes.Buffer
	if err := s.markdown.Renderer().Render(&body, p.source, p.root); err != nil {
		return err
	}
	title, rest, _ := strings.Cut(body.String(), "</h1>") // which phones show before the contents
	t, err := template.New("page").Funcs(template.FuncMap{
		"to":   func(q *page) string { return relative(p.name, q.name) },
		"here": func(q *page) bool { return q == p },
	}).Parse(frame)
	if err == nil {
		up := strings.Repeat("../", strings.Count(p.name, "/"))
		err = t.Execute(
			&file,
			map[string]any{
				"Page":  p,
				"Menu":  menu,
				"Title": template.HTML(title + "</h1>"),
				"Body":  template.HTML(rest),
				"Up":    up,
			},
		)
	}
	return errors.Join(err, put(out, address(p.name), file.Bytes()))
}

func put(out, name string, content []byte) error {
	file := filepath.Join(out, filepath.FromSlash(name))
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o777), os.WriteFile(file, content, 0o666))
}
