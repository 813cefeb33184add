package paper

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fedpace/experiment/config"
	"fedpace/experiment/folder"
	"fedpace/experiment/run"
	"fedpace/internal/human"
)

// rewrite makes the blocks of docs/paper.md and the figures in docs/paper anew:
//
//	go test ./experiment/study/paper -run InDocs -rewrite
var rewrite = flag.Bool("rewrite", false, "write docs/paper.md and the figures in docs/paper anew")

// docs holds what docs/paper.md is written from: a folder of curves for each
// evaluation that was done in full, and the paper's claims.
const docs = "../../../docs/paper"

// A block of the page is between two comments, the first of which says what it holds: "gains" over fixed
// K, the "verdicts" on the paper's claims or on those of "controls", or "curves" and a folder.
var (
	block   = regexp.MustCompile(`(?s)<!-- (gains|verdicts|controls|curves [a-z0-9-]+) -->\n.*?<!-- end -->\n`)
	control = regexp.MustCompile(`-(constant|reversed|shuffled)$|^k[0-9]+$`)
)

// fill makes what is in the blocks of a page from the claims and curves in docs.
func fill(page string) (string, error) {
	var failed error
	filled := block.ReplaceAllStringFunc(page, func(old string) string {
		what := block.FindStringSubmatch(old)[1]
		var b bytes.Buffer
		if where, ok := strings.CutPrefix(what, "curves "); ok {
			curves, err := Load(filepath.Join(docs, where))
			failed = errors.Join(failed, err, WriteTable4(&b, curves), WriteOutcomes(&b, curves))
			return fmt.Sprintf("<!-- %s -->\n%s\n<!-- end -->\n", what, indented(b.String()))
		}
		list, err := Verdicts(docs)
		if what == "gains" {
			err = errors.Join(err, writeGains(&b, list))
		} else {
			list = slices.DeleteFunc(list, func(v Verdict) bool {
				return (control.MatchString(v.Schedule) || control.MatchString(v.Than)) != (what == "controls")
			})
			var rows strings.Builder
			err = errors.Join(err, WriteVerdicts(&rows, list, true))
			text := rows.String()
			if what == "controls" { // of which the paper says nothing
				text = strings.Replace(text, "the paper says", "claim", 1)
			}
			b.WriteString(text)
		}
		failed = errors.Join(failed, err)
		return fmt.Sprintf("<!-- %s -->\n%s<!-- end -->\n", what, b.String())
	})
	return filled, failed
}

// writeGains writes a row for each folder with how far schedules end above fixed K, in points.
func writeGains(w io.Writer, list []Verdict) error {
	t := newTable(w, "", "runs", "`rounds`", "a constant K of as many steps", "K = 1 (`dsgd`)", "`step`", "`error`")
	var order []string
	cells := map[[2]string]string{}
	for _, v := range list {
		name, gain, _ := v.gain()
		if name == "" {
			continue
		}
		if !slices.Contains(order, v.Where) {
			order = append(order, v.Where)
		}
		text := fmt.Sprintf("%+.2f", 100*gain.Mean)
		if v.N > 1 {
			text += fmt.Sprintf(" ± %.2f", 100*gain.Half)
		}
		cells[[2]string{v.Where, name}] = text + fmt.Sprintf(" (%d)", v.N)
	}
	for _, where := range order {
		row := []any{where}
		for _, schedule := range []string{"rounds", "rounds-constant", "dsgd", "step", "error"} {
			row = append(row, cmp.Or(cells[[2]string{where, schedule}], "-"))
		}
		t.row(row...)
	}
	return t.markdown()
}

// indented makes code of the rows of tables: their titles and notes stand in the page's own words.
func indented(tables string) string {
	var b strings.Builder
	row, before := false, ""
	for line := range strings.Lines(tables) {
		line = strings.TrimRight(line, "\n ")
		if row = strings.HasPrefix(line, "task ") || row && line != ""; row {
			if before == "" {
				b.WriteString("\n")
			}
			b.WriteString("    " + line + "\n")
		}
		before = line
	}
	return b.String()
}

// docs/paper.md has the verdicts on the paper's claims and the tables of all curves as they follow
// from the committed files.
func TestTheTablesInDocs(t *testing.T) {
	old, err := os.ReadFile(docs + ".md")
	if err != nil {
		t.Fatal(err)
	}
	page, err := fill(string(old))
	if err != nil {
		t.Fatal(err)
	}
	if *rewrite {
		if err := os.WriteFile(docs+".md", []byte(page), 0o666); err != nil {
			t.Fatal(err)
		}
	} else if page != string(old) {
		t.Error("docs/paper.md is not what its curves give (go test ./experiment/study/paper -run InDocs -rewrite)")
	}
	if !strings.Contains(page, "<!-- verdicts -->") {
		t.Error("docs/paper.md has no verdicts")
	}
	for _, dir := range kept(t) {
		if !strings.Contains(page, "<!-- curves "+filepath.Base(dir)+" -->") {
			t.Errorf("docs/paper.md does not show %s", dir)
		}
	}
}

// kept are the folders of curves in docs.
func kept(t *testing.T) (dirs []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(docs, "*", CellsFile))
	if err != nil || len(found) == 0 {
		t.Fatalf("no curves in %s (%v)", docs, err)
	}
	for _, path := range found {
		dirs = append(dirs, filepath.Dir(path))
	}
	return dirs
}

// The figures in docs show the data of the curves beside them.
func TestTheFiguresInDocs(t *testing.T) {
	for _, dir := range kept(t) {
		curves, err := Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		drawn := t.TempDir()
		if *rewrite {
			drawn = dir
		}
		if err := Draw(drawn, curves); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{Figure1File, Figure2File} {
			want, err := os.ReadFile(filepath.Join(dir, name))
			if errors.Is(err, os.ErrNotExist) && curves[0].Data == "" {
				continue // timing only
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(drawn, name))
			if err != nil {
				t.Fatal(err)
			}
			if diff := differs(string(got), string(want)); diff != "" {
				t.Errorf("%s is not the figure of its curves: %s (go test ./experiment/study/paper -run InDocs -rewrite)", filepath.Join(dir, name), diff)
			}
		}
	}
}

// The picture of what schedules gain over fixed K shows the verdicts' differences.
func TestTheGainsInDocs(t *testing.T) {
	list, err := Verdicts(docs)
	if err != nil {
		t.Fatal(err)
	}
	drawn := t.TempDir()
	if *rewrite {
		drawn = docs
	}
	if err := DrawGains(drawn, list); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(drawn, GainsFile))
	want, also := os.ReadFile(filepath.Join(docs, GainsFile))
	if err := errors.Join(err, also); err != nil {
		t.Fatal(err)
	}
	if diff := differs(string(got), string(want)); diff != "" {
		t.Errorf("docs/paper/%s is not the figure of its curves: %s (go test ./experiment/study/paper -run InDocs -rewrite)", GainsFile, diff)
	}
}

// When schedules pass K-eta-fixed's best accuracy on FEMNIST, and after how many steps, is in no
// table: docs/paper.md says it in words.
func TestThePaceOnFEMNISTInDocs(t *testing.T) {
	page, err := os.ReadFile(docs + ".md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(page)), " ")
	curves, err := Load(filepath.Join(docs, "femnist"))
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]*Curve{}
	for i := range curves {
		of[curves[i].Schedule] = &curves[i]
	}
	reached := func(schedule string, accuracy float64) Point {
		i := slices.IndexFunc(of[schedule].Points, func(p Point) bool { return p.BestAccuracy >= accuracy })
		return of[schedule].Points[i] // its own best at the latest
	}
	best := of["fixed"].BestAccuracy
	fixed, rounds, dsgd := reached("fixed", best), reached("rounds", best), reached("dsgd", best)
	steps := 0.0
	for r := range rounds.Round {
		steps += math.Ceil(float64(of["rounds"].K0) / math.Cbrt(float64(r+1))) // Eq. 10
	}
	for _, want := range []string{
		fmt.Sprintf("best accuracy, %.3f, at minute %.0f, in round %s.", best, rounds.VirtualSeconds/60, human.Thousands(int64(rounds.Round))),
		fmt.Sprintf("at minute %.0f, in round %s, with %.0f times the steps.", fixed.VirtualSeconds/60, human.Thousands(int64(fixed.Round)), float64(fixed.Round*of["fixed"].K0)/steps),
		fmt.Sprintf("from its best, %.3f at minute %.0f,", of["rounds"].BestAccuracy, reached("rounds", of["rounds"].BestAccuracy).VirtualSeconds/60),
		fmt.Sprintf("passes fixed K's best accuracy at minute %.0f ", dsgd.VirtualSeconds/60),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("docs/paper.md does not say %q", want)
		}
	}
}

var number = regexp.MustCompile(`-?[0-9]+(\.[0-9]+)?`)

// differs says where two figures differ by more than a fiftieth of a pixel, or in words.
func differs(a, b string) string {
	if x, y := number.ReplaceAllString(a, "0"), number.ReplaceAllString(b, "0"); x != y {
		return "its words or the number of its points differ"
	}
	x, y := number.FindAllString(a, -1), number.FindAllString(b, -1)
	for i := range x {
		u, _ := strconv.ParseFloat(x[i], 64) // the pattern is that of a number
		v, _ := strconv.ParseFloat(y[i], 64)
		if math.Abs(u-v) > 0.02 {
			return fmt.Sprintf("%s in place of %s, its number %d", x[i], y[i], i+1)
		}
	}
	return ""
}

func TestFiguresAreToldApart(t *testing.T) {
	const svg = `<path d="M10.25 3L20 -4.5"/><text>fixed</text>`
	for other, same := range map[string]bool{
		svg: true, strings.Replace(svg, "10.25", "10.26", 1): true, strings.Replace(svg, "10.25", "10.35", 1): false,
		strings.Replace(svg, "fixed", "dsgd", 1): false, strings.Replace(svg, "L20 -4.5", "", 1): false,
	} {
		if got := differs(svg, other); (got == "") != same {
			t.Errorf("%s: %q", other, got)
		}
	}
}

// A prefix of any curve can be played again to the bit by the command beside it. Four of them are, drawn
// by chance from what there is, on the real data, for three hundredths of the time.
func TestPrefixesInDocsAreTheSameBits(t *testing.T) {
	t.Parallel()
	data := "../../../../shared/data/sent140/tweets_with_users.csv.gz"
	if _, err := os.Stat(data); err != nil {
		t.Skipf("NOT CHECKED: no real data (%v)", err)
	}
	curves, err := Load(filepath.Join(docs, "sent140-users"))
	if err != nil {
		t.Fatal(err)
	}
	curves = slices.DeleteFunc(curves, func(c Curve) bool { return !slices.Contains(Table3(), c.Schedule) })
	p := Full()
	for _, c := range curves {
		p.Seeds = max(p.Seeds, int(c.Seed))
	}
	p.Tasks, p.Out, p.Data = []config.Task{config.TaskSent140}, t.TempDir(), map[config.Task]string{config.TaskSent140: data}
	p.Sets = []string{"sent140.min_tweets=3", "clients=all"}
	cells, err := p.Cells()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range rand.New(rand.NewPCG(uint64(len(curves)), 1)).Perm(len(curves))[:4] {
		whole := &curves[i]
		t.Run(fmt.Sprintf("%s %d", whole.Schedule, whole.Seed), func(t *testing.T) {
			t.Parallel()
			cell := cellOf(cells, *whole)
			if cell == nil {
				t.Fatalf("no run of %v is planned", whole.key())
			}
			ctx, stop := context.WithCancel(t.Context())
			_, err := run.Run(ctx, cell.Config, run.Options{Version: "test", Shown: run.Shown{Progress: func(p run.Progress) {
				if p.End.Seconds() > 0.03*whole.VirtualSeconds {
					stop()
				}
			}}})
			if stop(); !errors.Is(err, context.Canceled) {
				t.Fatalf("it ended with %v", err)
			}
			samePrefix(t, cell.Config.Out, whole)
		})
	}
}

// samePrefix compares the evaluations of a run that was cut with those of a whole curve.
func samePrefix(t *testing.T, dir string, whole *Curve) {
	t.Helper()
	again, err := readCell(dir)
	if err != nil {
		t.Fatal(err)
	}
	if whole.Kernel != "" {
		if c, err := config.Load(filepath.Join(dir, folder.ConfigFile), nil); err != nil || string(c.Kernel) != whole.Kernel {
			t.Skipf("NOT CHECKED: the curve is of kernel class %s, this machine's is %s (%v)", whole.Kernel, c.Kernel, err)
		}
	}
	if len(again.Points) < 4 {
		t.Fatalf("%d points were played again, want at least 4", len(again.Points))
	}
	for _, p := range whole.Points {
		i := slices.IndexFunc(again.Points, func(q Point) bool { return q.Round == p.Round })
		if i < 0 {
			break // it was cut before
		}
		if math.IsNaN(p.Accuracy) {
			p.Accuracy = again.Points[i].Accuracy
		}
		if p != again.Points[i] {
			t.Errorf("docs have %+v, played again it is %+v", p, again.Points[i])
		}
	}
}
