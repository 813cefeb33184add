package cmd

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"fedpace/cmd/internal/cli"
)

// A page is followed as a reader would: its commands are typed one after the other
// in one folder, and what they say is compared with what stands behind them.
//
//   - A block of ```sh is a shell script.
//   - Elsewhere each line of code that begins with fedpace is a command.
//   - Lines of code "# NAME.yaml" begin a file, which is written before.
//   - A block of ```output is what the commands before it say, from some line on, as
//     are the lines behind a command with "$ " in its block. A line "..." stands for
//     any lines. In ```output about, numbers may be off by a third.

// item is one thing on a page: commands, or what the ones before say.
type item struct {
	line     int
	commands string // a line, or a script
	output   string
	about    bool
}

var typedLine = regexp.MustCompile(`^(\$ )?(?:\./|go run \./cmd/)?(fedpace(?:-device)? .*)$`)

// itemsOf reads a page.
func itemsOf(page string) (items []item, files map[string]string) {
	files = map[string]string{}
	lines := strings.Split(page, "\n")
	named := regexp.MustCompile(`^# ([a-z]+\.yaml)\b`)
	for i := 0; i < len(lines); i++ {
		kind, fenced := strings.CutPrefix(lines[i], "```")
		if !fenced && !strings.HasPrefix(lines[i], "    ") {
			continue
		}
		from := i
		var block []string
		if fenced {
			for i++; i < len(lines) && !strings.HasPrefix(lines[i], "```"); i++ {
				block = append(block, lines[i])
			}
		} else {
			for ; i < len(lines) && (strings.HasPrefix(lines[i], "    ") || lines[i] == "" && i+1 < len(lines) && strings.HasPrefix(lines[i+1], "    ")); i++ {
				block = append(block, strings.TrimPrefix(lines[i], "    "))
			}
		}
		switch text := strings.Join(block, "\n") + "\n"; {
		case kind == "sh" && fenced:
			items = append(items, item{line: from + 1, commands: text})
			continue
		case strings.HasPrefix(kind, "output") && fenced:
			items = append(items, item{line: from + 1, output: text, about: kind == "output about"})
			continue
		}
		name := ""
		for j := 0; j < len(block); j++ {
			if m := named.FindStringSubmatch(block[j]); m != nil {
				name = m[1]
			}
			m := typedLine.FindStringSubmatch(strings.TrimSpace(block[j]))
			if m == nil {
				if name != "" {
					files[name] += block[j] + "\n"
				}
				continue
			}
			name = ""
			next := item{line: from + j + 1, commands: m[2]}
			for strings.HasSuffix(next.commands, "\\") && j+1 < len(block) {
				j++
				next.commands = strings.TrimSuffix(next.commands, "\\") + strings.TrimSpace(block[j])
			}
			items = append(items, next)
			if m[1] != "" { // what it says is behind it
				said := strings.Join(block[j+1:], "\n")
				items, j = append(items, item{line: from + j + 2, output: said + "\n"}), len(block)
			}
		}
	}
	return items, files
}

// pagesWithCommands are all pages by their path from this folder.
func pagesWithCommands(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../examples/*/*.md", "../python/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			all[path] = read(t, path)
		}
	}
	delete(all, "../docs/commands.md") // whose examples are those of the help
	return all
}

// typedWords splits a command line as a shell does: at spaces outside of single
// quotes, up to a comment, a pipe or a redirection.
func typedWords(line string) (list []string) {
	for _, word := range regexp.MustCompile(`(?:'[^']*'|[^\s'])+`).FindAllString(line, -1) {
		if strings.ContainsAny(word[:1], "#|>&") || word == "..." {
			break
		}
		list = append(list, strings.ReplaceAll(word, "'", ""))
	}
	return list
}

// fedpaceLines are the commands of the program in a script.
func fedpaceLines(script string) (list []string) {
	for line := range strings.Lines(strings.ReplaceAll(script, "\\\n", " ")) {
		if m := typedLine.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			list = append(list, m[2])
		}
	}
	return list
}

// Every command of the program on a page can be typed as it stands: the command
// exists, and so do its flags.
func TestPages_Commands(t *testing.T) {
	typed := 0
	for path, page := range pagesWithCommands(t) {
		items, _ := itemsOf(page)
		for _, it := range items {
			for _, line := range fedpaceLines(it.commands) {
				typed++
				if err := parses(line); err != nil {
					t.Errorf("%s:%d: %s: %v", path, it.line, line, err)
				}
			}
		}
	}
	if typed < 150 {
		t.Errorf("only %d commands", typed)
	}
}

func parses(line string) error {
	root := rootCommand(program{})
	cli.Prepare(root)
	line = strings.ReplaceAll(line, "$cluster", "tls://a:4222,tls://b:4222") // as the page has set it
	found, rest, err := root.Find(typedWords(line)[1:])
	if err == nil {
		err = found.ParseFlags(rest)
	}
	if err == nil && found.Args != nil {
		err = found.Args(found, found.Flags().Args())
	}
	return err
}

// The README and the tutorial begin with the same demonstration.
func TestPages_DemonstrationOfTutorial(t *testing.T) {
	_, shown, _ := strings.Cut(read(t, "../docs/tutorial.md"), "```output\n")
	shown, _, _ = strings.Cut(shown, "```")
	if indented := "    " + strings.ReplaceAll(strings.TrimSpace(shown), "\n", "\n    ") + "\n"; !strings.Contains(read(t, "../README.md"), indented) {
		t.Errorf("README.md does not have\n%s", indented)
	}
}

// What a page calls a script or a target of make is there, and go has its packages and
// tests.
func TestPages_OtherCommands(t *testing.T) {
	makefile := read(t, "../Makefile")
	n := 0
	for path, page := range pagesWithCommands(t) {
		for _, m := range regexp.MustCompile(`(?m)^ {4}(?:\w+=\S+ )*(sh|bash|make|go (?:run|test)) (.*)$`).FindAllStringSubmatch(page, -1) {
			words := typedWords(m[2])
			n++
			switch m[1] {
			case "sh", "bash":
				if _, err := os.Stat(filepath.Join("..", words[0])); err != nil {
					t.Errorf("%s: %s: %v", path, m[0], err)
				}
			case "make":
				if !regexp.MustCompile(`(?m)^` + words[0] + `:`).MatchString(makefile) {
					t.Errorf("%s: %s: the Makefile does not have it", path, m[0])
				}
			default:
				tests, folder := "", ""
				for i, word := range words {
					if strings.HasPrefix(word, "./") {
						folder = filepath.Join("..", strings.TrimSuffix(word, "/..."))
					}
					// go test takes what follows a flag that it does not know for the test's, also a package.
					isTestsOwn := word == "-trials" || word == "-progress" || word == "-times"
					if isTestsOwn && folder == "" {
						t.Errorf("%s: %s: the package stands behind a flag of the test's own", path, m[0])
					}
					if word == "-run" || word == "-bench" {
						if pattern := words[i+1]; pattern != "^$" && pattern != "." && pattern != "XXX" {
							tests = pattern
						}
					}
				}
				if _, err := os.Stat(folder); folder == "" || err != nil {
					t.Errorf("%s: %s: no such package: %v", path, m[0], err)
				} else if tests != "" && !hasTest(t, folder, tests) {
					t.Errorf("%s: %s: no test is called so", path, m[0])
				}
			}
		}
	}
	if n < 15 {
		t.Errorf("only %d commands", n)
	}
}

// hasTest says whether a package, or one below it, has a test or benchmark whose name
// the pattern finds.
func hasTest(t *testing.T, folder, pattern string) (found bool) {
	t.Helper()
	name := regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w+)\(`)
	err := filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, m := range name.FindAllStringSubmatch(read(t, path), -1) {
			found = found || regexp.MustCompile(pattern).MatchString(m[1])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
