package cmd

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// typedWords splits a command line as a shell does: at spaces outside of single
// quotes, up to a comment, a pipe or a redirection.
func typedWords(line string) (list []string) {
	for _, word := range regexp.MustCompile(`(?:'[^']*'|[^\s'])+`).FindAllString(line, -1) {
		if strings.ContainsAny(word[:1], "#|>&") {
			break
		}
		list = append(list, strings.ReplaceAll(word, "'", ""))
	}
	return list
}

// Every command of the program on a page can be typed as it stands: the command
// exists, and so do its flags.
func TestCommandsOnThePages(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	typed := 0
	for _, path := range append(pages, "../README.md", "../examples/device-js/README.md") {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(page), "\\\n", " ")
		for _, m := range regexp.MustCompile(`(?m)^ {4,}(?:\$ )?(?:\./|go run \./cmd/)?(fedpace .*)$`).FindAllStringSubmatch(text, -1) {
			typed++
			found, rest, err := rootCommand(program{}).Find(typedWords(m[1])[1:])
			if err == nil {
				err = found.ParseFlags(rest)
			}
			if err == nil && found.Args != nil {
				err = found.Args(found, found.Flags().Args())
			}
			if err != nil {
				t.Errorf("%s: %s: %v", path, m[1], err)
			}
		}
	}
	if typed < 80 {
		t.Errorf("only %d commands", typed)
	}
}
