package docs

import (
	"encoding/csv"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/coordinator/schedule"
	"fedpace/experiment/folder"
	"fedpace/experiment/run"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
)

var rewrite = flag.Bool("rewrite", false, "write the pictures of the pages anew")

// drawing is a picture in SVG, whose colours suit light and dark pages.
type drawing struct{ strings.Builder }

const (
	blue, orange, green, grey = "#3b7dd8", "#d9822b", "#3a9d5d", "#808890"
)

func (d *drawing) text(x, y float64, anchor, format string, args ...any) {
	fmt.Fprintf(d, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, strings.NewReplacer("&", "&amp;", "<", "&lt;").Replace(fmt.Sprintf(format, args...)))
}

func (d *drawing) rect(x, y, width, height float64, colour string) {
	fmt.Fprintf(d, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", x, y, width, height, colour)
}

func (d *drawing) line(colour string, points ...float64) {
	fmt.Fprintf(d, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\" points=\"", colour)
	for i := 0; i < len(points); i += 2 {
		fmt.Fprintf(d, "%.1f,%.1f ", points[i], points[i+1])
	}
	d.WriteString("\"/>\n")
}

// keep compares a picture with the one on the pages, or writes it.
func (d *drawing) keep(t *testing.T, name, about string, width, height int) {
	t.Helper()
	text := fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\" font-family=\"sans-serif\" font-size=\"12\" fill=\"%s\">\n<title>%s</title>\n%s</svg>\n",
		width, height, width, height, grey, about, d.String())
	if *rewrite {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old, err := os.ReadFile(name); err != nil || string(old) != text {
		t.Errorf("%s is stale, %v: go test ./docs -run %s -rewrite", name, err, t.Name())
	}
}

// Each schedule of K, over 200 rounds of 1 s in which the loss falls as 1/(1 + r/50).
func TestPicture_Schedules(t *testing.T) {
	var d drawing
	const rounds, k0, across, wide, high = 200, 60, 4, 190., 110.
	list := []struct{ name, k string }{
		{"fixed", "fixed"}, {"rounds", "rounds"}, {"error", "error"}, {"step", "step"},
		{"{power: 1/2}", "{power: 1/2}"}, {"linear", "{rule: linear, to: 5, rounds: 150}"}, {"cosine", "{rule: cosine, to: 5, rounds: 150}"}, {"exponential", "{rule: exponential, to: 5, rounds: 150}"},
		{"[60, 30, 10] by rounds", "[{from_round: 1, value: 60}, {from_round: 50, value: 30}, {from_round: 120, value: 10}]"},
		{"adacomm", "{rule: adacomm, seconds: 25}"}, {"max(5, k0/(1+t/20))", `{rule: expression, formula: "max(5, k0/(1+t/20))"}`}, {"dsgd", "dsgd"},
	}
	for i, of := range list {
		c, err := config.Load("", []string{"schedule.k=" + of.k, fmt.Sprint("schedule.k0=", k0)})
		if err != nil {
			t.Fatal(of.name, err)
		}
		x0, y0 := 10+wide*float64(i%across), 24+(high+30)*float64(i/across)
		d.text(x0, y0-6, "start", "%s", of.name)
		d.line(grey, x0, y0, x0, y0+high, x0+wide-20, y0+high)
		var points []float64
		p := schedule.Progress{Setup: schedule.Setup{K0: k0, Eta0: 0.1, DecayRound: 100}, HasLoss: true, F0: 1}
		for r := 1; r <= rounds; r++ {
			p.Round, p.Seconds, p.Loss = r, float64(r-1), 1/(1+float64(r)/50)
			p.LossRatio = p.Loss
			k := c.Schedule.K.LocalSteps(p)
			p.Previous = schedule.Decision{LocalSteps: k, LearningRate: 0.1, Seconds: p.Seconds}
			points = append(points, x0+(wide-20)*float64(r)/rounds, y0+high*(1-float64(k)/(1.05*k0)))
		}
		d.line(blue, points...)
	}
	d.keep(t, "schedules.svg", "K_r of each schedule over 200 rounds, from K_0 = 60", 770, 440)
}

// A round by Eq. 3: each client downloads the model, takes K steps and uploads its update; rules
// say when the round closes.
func TestPicture_Round(t *testing.T) {
	var d drawing
	const megabits, k, left, scale = 6.71, 40, 150., 95. // FEMNIST's model, and K
	ends := []float64{}
	for i, c := range []struct {
		name     string
		down, up float64 // Mbit/s
		step     float64 // seconds
	}{{"laptop", 20, 5, 0.017}, {"laptop", 20, 5, 0.017}, {"phone", 10, 3, 0.03}, {"phone", 10, 3, 0.03}, {"board", 20, 5, 0.085}, {"poor link", 4, 1.5, 0.017}} {
		y, x := 30+26*float64(i), left
		d.text(left-8, y+13, "end", "%s", c.name)
		end := 0.
		for j, seconds := range []float64{megabits / c.down, k * c.step, megabits / c.up} {
			d.rect(x, y, scale*seconds, 18, []string{blue, orange, green}[j])
			x, end = x+scale*seconds, end+seconds
		}
		ends = append(ends, end)
		d.text(x+6, y+13, "start", "%.1f s", end)
	}
	slices.Sort(ends)
	for i, rule := range []struct {
		name string
		at   float64
	}{{"first, n: 4", ends[3]}, {"deadline, 5 s", 5}, {"all", ends[5]}} {
		x := left + scale*rule.at
		d.line(grey, x, 22, x, 200+16*float64(i))
		d.text(x-4, 200+16*float64(i), "end", "%s: the round closes after %.1f s", rule.name, rule.at)
	}
	for i, part := range []string{"download", "K local steps", "upload"} {
		d.rect(left+130*float64(i), 6, 12, 12, []string{blue, orange, green}[i])
		d.text(left+18+130*float64(i), 16, "start", "%s", part)
	}
	d.keep(t, "round.svg", "A round of six clients, and when three rules close it", 880, 245)
}

// The rows of a table become samples.
func TestPicture_Mapping(t *testing.T) {
	f, err := os.Open("../examples/own-data/flowers.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var d drawing
	colours := []string{orange, blue, blue, blue, blue, green}
	for i, at := range []int{0, 1, 2, 60, 61} {
		for j, cell := range rows[at] {
			x, y := 14+94*float64(j), 44+22*float64(i)
			if i == 0 {
				d.rect(x-6, y-16, 90, 22, colours[j]+"33")
			}
			d.text(x, y, "start", "%s", cell)
		}
		if i > 0 {
			y := 44 + 22*float64(i)
			d.line(grey, 585, y-4, 620, y-4, 615, y-8, 620, y-4, 615, y)
			d.text(632, y, "start", "%s learns (%s) → %s", rows[at][0], strings.Join(rows[at][1:5], ", "), rows[at][5])
		}
	}
	for j, word := range []string{"client", "features", "", "", "", "label"} {
		d.text(14+94*float64(j), 18, "start", "%s", word)
	}
	d.keep(t, "mapping.svg", "A row is a sample of one client: features are read, the label is told", 960, 150)
}

// Many local steps learn fast at first, and end worse: the quadratic task's loss by time.
func TestPicture_Decay(t *testing.T) {
	if !*rewrite {
		slow.Test(t, "it plays four runs")
	}
	var d drawing
	const left, top, wide, high, until, least, most = 60., 20., 620., 250., 120., 5.4, 7.
	at := func(seconds, loss float64) (x, y float64) {
		return left + wide*math.Log(1+seconds)/math.Log(1+until), top + high*(most-math.Min(loss, most))/(most-least)
	}
	for i, of := range []struct{ name, k, k0, colour string }{
		{"K = 100", "fixed", "100", orange}, {"K = 10", "fixed", "10", green}, {"K = 3", "fixed", "3", grey}, {"K decays from 100", "{power: 1/2}", "100", blue},
	} {
		c, err := config.Load("", []string{"task=quadratic", "kernel=go", "schedule.k=" + of.k, "schedule.k0=" + of.k0, "evaluate.every=1", fmt.Sprint("stop.virtual_seconds=", until), "out=" + filepath.Join(t.TempDir(), "run")})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Run(t.Context(), c, run.Options{}); err != nil {
			t.Fatal(err)
		}
		rounds, err := runtest.ReadRounds(filepath.Join(c.Out, folder.RoundsFile))
		if err != nil {
			t.Fatal(err)
		}
		var points []float64
		var recent []float64
		for _, r := range rounds {
			if !r.Evaluated {
				continue
			}
			recent = append(recent, r.ValidationLoss)
			recent = recent[max(0, len(recent)-10):]
			sum := 0.
			for _, l := range recent {
				sum += l
			}
			if x, y := at(r.End.Seconds(), sum/float64(len(recent))); len(points) == 0 || x-points[len(points)-2] > 2 {
				points = append(points, x, y)
			}
		}
		d.line(of.colour, points...)
		d.rect(left+360, top+20*float64(i), 12, 12, of.colour)
		d.text(left+378, top+10+20*float64(i), "start", "%s", of.name)
	}
	d.line(grey, left, top, left, top+high, left+wide, top+high)
	for _, s := range []float64{1, 3, 10, 30, 120} {
		x, y := at(s, least)
		d.text(x, y+16, "middle", "%g s", s)
	}
	d.text(left+wide/2, top+high+34, "middle", "virtual time (quadratic, seed 1)")
	d.text(left-8, top+12, "end", "loss")
	d.keep(t, "decay.svg", "Many local steps learn fast at first and end worse; few do the opposite; a K that decays has both", 720, 310)
}
