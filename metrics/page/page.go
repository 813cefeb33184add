package page

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

//go:embed page.html page.css *.js uplot
var files embed.FS

var (
	markup = string(read("page.html"))
	style  = append(read("uplot/uPlot.min.css"), read("page.css")...)
)

// script returns the page's script. It is joined when a page first needs it: most processes show none.
var script = sync.OnceValue(func() []byte {
	return join(
		"base.js",
		"save.js",
		"lines.js",
		"curves.js",
		"find.js",
		"tasks.js",
		"run.js",
		"watch.js",
		"sweep.js",
		"board.js",
		"compare.js",
		"main.js",
	)
})

// read returns the content of the embedded file with this name. It panics if there is none, which a
// test would find.
func read(name string) []byte {
	text, err := files.ReadFile(name)
	if err != nil {
		// The name is not embedded, which is a mistake in the program that any test reveals.
		panic(err)
	}
	return text
}

// moduleSyntax matches the lines by which a module imports, and the word export before a definition.
var moduleSyntax = regexp.MustCompile(`(?m)^import .*\n|^export `)

// commentsAndIndents matches the parts of a module that a browser has no use for: comments on lines of their
// own, and the indentation. No text in a module spans lines.
var commentsAndIndents = regexp.MustCompile(`(?m)^[ \t]*//.*\n|^[ \t]+`)

// join returns one script: uPlot, and behind it the modules with these file names, in one scope and without their
// imports, exports and comments. Their top-level names must differ.
func join(names ...string) []byte {
	text := append(read("uplot/uPlot.iife.min.js"), "(function () {\n'use strict';\n"...)
	for _, name := range names {
		module := moduleSyntax.ReplaceAll(read(name), nil)
		text = append(text, commentsAndIndents.ReplaceAll(module, nil)...)
	}
	return append(text, "})();\n"...)
}

// fill returns the page with head, which is HTML, in its element head.
func fill(head string) []byte { return []byte(strings.Replace(markup, "<!-- head -->", head, 1)) }

// What a server of the page has.
const (
	// OneRun marks a page that shows the events of one run.
	OneRun = "run"
	// ManyRuns marks a page that shows runs.json and the runs that it names.
	ManyRuns = "runs"
)

// Routes makes mux answer on /, /page.css and /page.js. shows is OneRun or ManyRuns: what the server has
// for the page.
func Routes(mux *http.ServeMux, shows string) {
	static := func(kind string, text []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Content-Length", strconv.Itoa(len(text)))
			// An error means that the client has gone, which is not reported.
			_, _ = w.Write(text)
		}
	}
	head := fmt.Sprintf("<meta name=\"fedpace\" content=%q>\n<link rel=\"stylesheet\" href=\"page.css\">\n<script "+
		"src=\"page.js\" defer></script>", shows)
	mux.Handle("GET /{$}", static("text/html; charset=utf-8", fill(head)))
	mux.Handle("GET /page.css", static("text/css; charset=utf-8", style))
	mux.Handle("GET /page.js", static("text/javascript; charset=utf-8", script()))
}

// Document is what a page that stands alone shows: its text must not hold a "<".
type Document struct {
	// ID identifies the HTML element that holds the data.
	ID   string
	Text []byte
}

// Write writes the page to w with the documents in it, as one file that needs nothing else. Each
// document becomes a script element of JSON under its ID, so its text must not end that element.
func Write(w io.Writer, documents ...Document) error {
	before, behind, _ := strings.Cut(string(fill("<!-- here -->")), "<!-- here -->")
	policy := fmt.Sprintf(
		"default-src 'none'; script-src '%s'; style-src '%s'; img-src data:; base-uri 'none'; form-action 'none'",
		digest(script()),
		digest(style),
	)
	_, err := fmt.Fprintf(w, `%s<meta http-equiv="Content-Security-Policy" content="%s">
<style>%s</style>
`, before, policy, style)
	for _, d := range documents {
		if err == nil {
			_, err = fmt.Fprintf(w, "<script type=\"application/json\" id=%q>%s</script>\n", d.ID, d.Text)
		}
	}
	if err == nil {
		_, err = fmt.Fprintf(w, "<script>%s</script>%s", script(), behind)
	}
	return err
}

// WritePlain writes a page without scripts, in the same look: the text title, below it the sentence about,
// and then main, which is HTML.
func WritePlain(w io.Writer, title, about string, main []byte) error {
	heading := html.EscapeString(title)
	sentence := html.EscapeString(about)
	titles := `<p class="brand">fedpace</p><h1>` + heading + `</h1><p class="quiet">` + sentence + `</p>`
	_, err := fmt.Fprintf(w, `<!doctype html>
<html lang="en-GB">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>%[1]s</title>
<style>%[3]s</style>
</head>
<body>
<header class="top"><div class="title">%[2]s</div></header>
<main>
%[4]s</main>
</body>
</html>
`, heading, titles, style, main)
	return err
}

// digest returns the name of an inline text in a content security policy: its SHA-256 hash.
func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
