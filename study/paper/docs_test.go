package paper

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
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

	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/experiment/run"
	"fedpace/internal/human"
	"fedpace/internal/statistics"
	"fedpace/internal/table"
	"fedpace/study"
)

// rewrite makes the blocks of docs/paper.md and the figures in docs/paper anew:
//
//	go test ./study/paper -run Docs_ -rewrite
var rewrite = flag.Bool("rewrite", false, "write docs/paper.md and the figures in docs/paper anew")

// docs holds what docs/paper.md is written from: a folder of curves for each
// evaluation that was done in full, and the paper's claims.
const docs = "../../docs/paper"

// verdictsFile has all verdicts with their numbers, of which docs/paper.md shows a part.
const verdictsFile = "verdicts.csv"

// A block of the page is between two comments, the first of which says what it holds: "gains" over fixed
// K, the "verdicts" on the paper's claims or on those of "controls", or "curves" and a folder.
var (
	block   = regexp.MustCompile(`(?s)<!-- (gains|verdicts|controls|curves [a-z0-9-]+) -->\n.*?<!-- end -->\n`)
	control = regexp.MustCompile(`-(constant|reversed|shuffled)$|^k[0-9]+$`)
)

// fill makes what is in the blocks of a page from the claims and curves in docs.
func fill(page string) (string, error) {
	list, failed := Verdicts(docs)
	filled := block.ReplaceAllStringFunc(page, func(old string) string {
		what := block.FindStringSubmatch(old)[1]
		text := ""
		switch where, ok := strings.CutPrefix(what, "curves "); {
		case ok:
			curves, err := Load(filepath.Join(docs, where))
			var b strings.Builder
			failed = errors.Join(failed, err, outcomes(&b, curves))
			text = "\n" + regexp.MustCompile(`(?m)^(.*\S) *$`).ReplaceAllString(b.String(), "    $1") + "\n"
		case what == "gains":
			text = gains(list)
		default:
			text = matrix(slices.DeleteFunc(slices.Clone(list), func(v Verdict) bool {
				return v.Against == "" || (control.MatchString(v.Schedule) || control.MatchString(v.Against)) != (what == "controls")
			}))
		}
		return fmt.Sprintf("<!-- %s -->\n%s<!-- end -->\n", what, text)
	})
	return filled, failed
}

// outcomes are the rows of what runs came to: their steps, and how they ended.
func outcomes(w io.Writer, curves []Curve) error {
	all, timing := groups(curves), curves[0].Data == ""
	tail := func(c *Curve) float64 { return c.TailAccuracy }
	rows := [][]string{{"schedule", "steps", "paper", "lowest loss", "tail accuracy", "above fixed"}}
	if timing {
		rows = [][]string{{"task", "schedule", "steps", "paper", "times fewer", "decay in round", "model Mb"}}
	}
	for _, g := range all {
		mean := func(of func(*Curve) float64) string { return g.mean(of).Digits(4) }
		steps := g.mean(func(c *Curve) float64 { return c.RelativeSteps })
		relative, printed := steps.Digits(4), cmp.Or(table4[g[0].Task][g[0].Schedule], "-")
		if steps.Half == 0 {
			relative, _, _ = strings.Cut(relative, " ")
		}
		switch {
		case timing && printed != "-":
			decay := "-"
			if g[0].Decayed > 0 {
				decay = strconv.Itoa(g[0].Decayed)
			}
			rows = append(rows, []string{string(g[0].Task), g[0].Schedule, relative, printed, fmt.Sprintf("%.2f", 1/steps.Mean), decay, fmt.Sprint(g[0].Megabits)})
		case !timing && !strings.HasPrefix(g[0].Schedule, "eta-") && !control.MatchString(g[0].Schedule):
			above := "-"
			if i := slices.IndexFunc(all, func(f group) bool { return f[0].Schedule == "fixed" }); g[0].Schedule != "fixed" {
				above = signed(statistics.EstimateMean(study.Paired(g, all[i], (*Curve).seed, tail)))
			}
			rows = append(rows, []string{g[0].Schedule, relative, printed, mean(func(c *Curve) float64 { return c.BestLoss }), mean(tail), above})
		}
	}
	return table.WriteText(w, rows)
}

// gains has a row for each folder with how far schedules end above fixed K, in points.
func gains(list []Verdict) string {
	var order []string
	cells := map[[2]string]string{}
	for _, v := range list {
		name, gain, _ := v.gainOverFixed()
		if name == "" {
			continue
		}
		if !slices.Contains(order, v.Folder) {
			order = append(order, v.Folder)
		}
		text := fmt.Sprintf("%+.2f", 100*gain.Mean)
		if v.N > 1 {
			text += fmt.Sprintf(" ± %.2f", 100*gain.Half)
		}
		cells[[2]string{v.Folder, name}] = text + fmt.Sprintf(" (%d)", v.N)
	}
	rows := [][]string{{"runs", "`rounds`", "a constant K of as many steps", "K = 1 (`dsgd`)", "`step`", "`error`"}}
	for _, where := range order {
		row := []string{where}
		for _, schedule := range []string{"rounds", "rounds-constant", "dsgd", "step", "error"} {
			row = append(row, cmp.Or(cells[[2]string{where, schedule}], "-"))
		}
		rows = append(rows, row)
	}
	return markdown(rows)
}

// matrix has a row for each claim and a column for each folder: the verdict, "?" for none, and the mean
// difference, in points where it is one of accuracies.
func matrix(list []Verdict) string {
	var claims, folders []string
	cells := map[[2]string]string{}
	for _, v := range list {
		if !slices.Contains(claims, v.Statement) {
			claims = append(claims, v.Statement)
		}
		if !slices.Contains(folders, v.Folder) {
			folders = append(folders, v.Folder)
		}
		mean := fmt.Sprintf(" %+.3f", v.Mean)
		if strings.HasSuffix(v.Quantity, "accuracy") {
			mean = fmt.Sprintf(" %+.2f", 100*v.Mean)
		}
		if v.N == 0 {
			mean = ""
		}
		cells[[2]string{v.Statement, v.Folder}] = map[string]string{Yes: "**yes**", No: "**no**", Undecided: "?"}[v.Decision] + mean
	}
	rows := [][]string{append([]string{"claim"}, folders...)}
	for _, claim := range claims {
		row := []string{claim}
		for _, where := range folders {
			row = append(row, cells[[2]string{claim, where}])
		}
		rows = append(rows, row)
	}
	return markdown(rows)
}

// markdown makes a table of a page.
func markdown(rows [][]string) string {
	var b strings.Builder
	for _, row := range slices.Insert(rows, 1, slices.Repeat([]string{"---"}, len(rows[0]))) {
		fmt.Fprintf(&b, "|%s|\n", strings.Join(row, "|"))
	}
	return b.String()
}

// docs/paper.md has the verdicts on the paper's claims and the tables of all curves as they follow
// from the committed files.
func TestDocs_Tables(t *testing.T) {
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
		t.Error("docs/paper.md is not what its curves give (go test ./study/paper -run Docs_ -rewrite)")
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

// All verdicts with their numbers are in a file that the page leads to.
func TestDocs_Verdicts(t *testing.T) {
	list, err := Verdicts(docs)
	if err != nil {
		t.Fatal(err)
	}
	rows := [][]string{{"claim", "runs", "measured", "n", "mean", "interval_95", "exact_p", "holm_p", "verdict"}}
	for i := range list {
		v := &list[i]
		mean, interval, flipped, adjusted := v.numbers()
		rows = append(rows, []string{v.Statement, v.cells(), v.question(), v.seedsText(), mean, interval, flipped, adjusted, v.Decision})
	}
	var b bytes.Buffer
	if err := csv.NewWriter(&b).WriteAll(rows); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(docs, verdictsFile)
	if *rewrite {
		if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if old, err := os.ReadFile(path); err != nil || string(old) != b.String() {
		t.Errorf("%s is not what the curves give (go test ./study/paper -run Docs_ -rewrite), %v", path, err)
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
func TestDocs_Figures(t *testing.T) {
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
				t.Errorf("%s is not the figure of its curves: %s (go test ./study/paper -run Docs_ -rewrite)", filepath.Join(dir, name), diff)
			}
		}
	}
}

// The picture of what schedules gain over fixed K shows the verdicts' differences.
func TestDocs_Gains(t *testing.T) {
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
		t.Errorf("docs/paper/%s is not the figure of its curves: %s (go test ./study/paper -run Docs_ -rewrite)", GainsFile, diff)
	}
}

// When schedules pass K-eta-fixed's best accuracy on FEMNIST, and after how many steps, is in no
// table: docs/paper.md says it in words.
func TestDocs_PaceOnFEMNIST(t *testing.T) {
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
		if curves[i].Seed == 1 {
			of[curves[i].Schedule] = &curves[i]
		}
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

func TestFigure_DistinctLines(t *testing.T) {
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
func TestDocs_PrefixesOfRuns(t *testing.T) {
	t.Parallel()
	data := "../../../shared/data/sent140/tweets_with_users.csv.gz"
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
	p.Tasks, p.Folder, p.Data = []config.Task{config.TaskSent140}, t.TempDir(), map[config.Task]string{config.TaskSent140: data}
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
			_, err := run.Run(ctx, cell.Config, run.Options{Version: "test", Callbacks: run.Callbacks{Progress: func(p run.Progress) {
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
		if c, err := config.Load(filepath.Join(dir, folder.ConfigFile), nil); err != nil || c.Kernel != whole.Kernel {
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
