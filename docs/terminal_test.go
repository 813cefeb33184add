package docs

import (
	"errors"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"fedpace/internal/testkit/slow"
	"fedpace/learn"
)

const (
	terminal     = "terminal.svg"
	column, line = 7.4, 19. // of the picture's letters, in pixels
	perRound     = 0.25     // seconds that a line of progress is shown
)

var figures = regexp.MustCompile(`\d[\d.,]*`)

// A terminal plays the demonstration: its progress from round to round, then its summary.
func TestPicture_Terminal(t *testing.T) {
	if !*rewrite {
		slow.Test(t, "it builds the program and plays the demonstration")
	}
	text := animated(playedInATerminal(t))
	if *rewrite {
		if err := os.WriteFile(terminal, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	k, err := learn.SelectKernel(learn.AutoKernel)
	if err != nil {
		t.Fatal(err)
	}
	same := func(s string) string { return s }
	if k.Class() != "avx" { // losses have other last bits there
		same = func(s string) string { return figures.ReplaceAllString(s, "0") }
	}
	if old, err := os.ReadFile(terminal); err != nil || same(string(old)) != same(text) {
		t.Errorf("%s is stale, %v: go test ./docs -run %s -rewrite", terminal, err, t.Name())
	}
}

// The picture is small, has no script, and ends with the summary that README has.
func TestTerminal_EndsAsREADME(t *testing.T) {
	page, err := os.ReadFile("../README.md")
	picture, err2 := os.ReadFile(terminal)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	if len(picture) > 60_000 || strings.Contains(string(picture), "<script") {
		t.Errorf("%s has %d bytes, or a script", terminal, len(picture))
	}
	summary := regexp.MustCompile(`(?m)<text class="s"[^>]*><tspan></tspan>(.*)</text>$`).FindAllStringSubmatch(string(picture), -1)
	for _, m := range summary {
		if l := html.UnescapeString(m[1]); !strings.Contains(string(page), "    "+l+"\n") {
			t.Errorf("README.md does not have %q", l)
		}
	}
	if len(summary) < 9 {
		t.Errorf("%d lines", len(summary))
	}
}

// playedInATerminal runs the demonstration in a wide terminal, made by script (of util-linux): its
// lines of progress, the first of each round, and its summary, but for what a machine takes, which
// is another time in each run.
func playedInATerminal(t *testing.T) (frames, summary []string) {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", filepath.Join(dir, "fedpace"), "../cmd/fedpace").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c := exec.CommandContext(t.Context(), "script", "-qefc", "./fedpace run", "/dev/null")
	c.Dir, c.Env = dir, append(os.Environ(), "COLUMNS=180", "TERM=xterm", "NO_COLOR=1")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	progress, rest, _ := strings.Cut(strings.ReplaceAll(string(out), "\r\n", "\n"), "\n")
	clock := regexp.MustCompile(`  \d+ of \d+ clients|  [^ ]+ in this round|  [^ ]+ rounds/s|  [^ ]+( to [^ ]+)? left|\x1b\[K`)
	seen := ""
	for frame := range strings.SplitSeq(progress, "\r") {
		if r := regexp.MustCompile(`round \d+/`).FindString(frame); r != seen {
			frames, seen = append(frames, clock.ReplaceAllString(frame, "")), r
		}
	}
	for l := range strings.SplitSeq(strings.TrimSpace(rest), "\n") {
		if !strings.Contains(l, "wall time") {
			summary = append(summary, l)
		}
	}
	return frames, summary
}

// animated is the picture: each line of progress for a moment, then the last one and the summary.
// What is not animated, as on paper, shows the end.
func animated(frames, summary []string) string {
	const typed, end = 1.2, 7. // seconds for the command, and for the summary
	begin := typed + perRound*float64(len(frames))
	width, height := 92*column+32, line*float64(len(summary)+3)+44
	var style, text strings.Builder
	show := func(row int, name, class, said string) {
		bar := regexp.MustCompile(`^(\[.*?\]| *\d+%)`).FindString(said) // in colour, as the program has it
		fmt.Fprintf(&text, "<text class=\"%s\" x=\"16\" y=\"%.0f\" textLength=\"%.1f\"><tspan>%s</tspan>%s</text>\n",
			strings.TrimSpace(name+" "+class), line*float64(row)+50, column*float64(len([]rune(said))), html.EscapeString(bar), html.EscapeString(said[len(bar):]))
	}
	move := func(name string, from, to float64, then int) {
		fmt.Fprintf(&style, ".%s{animation-name:%s}@keyframes %s{0%%{opacity:0}%.2f%%{opacity:1}%.2f%%{opacity:%d}}\n", name, name, name, 100*from/(begin+end), 100*to/(begin+end), then)
	}
	show(0, "c", "", "$ fedpace run")
	move("c", 0.4, begin+end, 1)
	last := len(frames) - 1
	for i, frame := range frames[:last] {
		name, from := fmt.Sprint("f", i), typed+perRound*float64(i)
		show(1, name, "f", frame)
		move(name, from, from+perRound, 0)
	}
	show(1, "e", "", frames[last])
	move("e", begin-perRound, begin+end, 1)
	for i, l := range summary {
		show(2+i, "s", "", l)
	}
	move("s", begin, begin+end, 1)
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img">
<title>fedpace run in a terminal: the progress from round to round, then the summary</title>
<style>
text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre;fill:#1f2328;animation:%.2fs step-end infinite}
tspan{fill:#0e7490}rect{fill:#f6f8fa;stroke:#d1d9e0}circle{fill:#afb8c1}.f{opacity:0}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}tspan{fill:#39c5cf}rect{fill:#0d1117;stroke:#3d444d}circle{fill:#484f58}}
%s@media(prefers-reduced-motion:reduce){text{animation:none!important}}
</style>
<rect x=".5" y=".5" width="%.0f" height="%.0f" rx="8"/>
<circle cx="20" cy="16" r="5"/><circle cx="38" cy="16" r="5"/><circle cx="56" cy="16" r="5"/>
%s</svg>
`, width, height, width, height, begin+end, style.String(), width-1, height-1, text.String())
}
