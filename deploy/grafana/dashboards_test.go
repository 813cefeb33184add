package grafana

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"fedpace/metrics"
)

// What all dashboards have in common.
const (
	tag       = "fedpace" // finds them
	gridWidth = 24        // Grafana's

	virtualTime = "fedpace-virtual" // shows runs that were exported; experiment/report plays its queries
)

var source = Datasource{Type: "prometheus", UID: "${datasource}"}

// dashboards reads all of them.
func dashboards(t *testing.T) []Dashboard {
	t.Helper()
	files, err := filepath.Glob("dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no dashboards", err)
	}
	all := make([]Dashboard, len(files))
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &all[i]); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if name := filepath.Base(file); name != all[i].UID+".json" {
			t.Errorf("%s is not named for its uid, %s", name, all[i].UID)
		}
	}
	return all
}

// What Grafana would stumble over, or a reader.
func TestStructure(t *testing.T) {
	uids, titles, linked := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, d := range dashboards(t) {
		if uids[d.UID] || titles[d.Title] {
			t.Errorf("%s (%s) is there twice", d.UID, d.Title)
		}
		uids[d.UID], titles[d.Title] = true, true
		if len(d.UID) > 40 || d.Description == "" || !slices.Contains(d.Tags, tag) {
			t.Errorf("%s: a uid of at most 40 letters, a description and the tag are wanted", d.UID)
		}
		checkVariables(t, &d)
		checkGrid(t, &d)
		ids, names := map[int]bool{}, map[string]bool{}
		for _, p := range d.Panels {
			where := d.UID + ": " + p.Title
			if p.ID < 1 || ids[p.ID] {
				t.Errorf("%s: id %d is not one of its own", where, p.ID)
			}
			if p.Title == "" || names[p.Title] {
				t.Errorf("%s: the title is empty or there twice", where)
			}
			ids[p.ID], names[p.Title] = true, true
			for _, l := range p.Links {
				linked[checkLink(t, where, l.URL)] = true
			}
			if p.Type == "row" {
				if len(p.Targets) > 0 || p.Collapsed == nil {
					t.Errorf("%s: a row has a title and nothing else", where)
				}
				continue
			}
			if p.Type == "alertlist" { // Grafana asks the data source for its alerts itself
				continue
			}
			checkPanel(t, where, &p)
		}
		if d.UID == virtualTime { // of runs that have ended
			continue
		}
		if first := d.Panels[0]; first.Type != "row" || first.Title != "Is it well?" {
			t.Errorf("%s does not begin with whether all is well", d.UID)
		}
		if len(d.Annotations.List) != 5 {
			t.Errorf("%s has %d annotations", d.UID, len(d.Annotations.List))
		}
	}
	for uid := range linked {
		if !uids[uid] {
			t.Errorf("a link leads to %s, which is not there", uid)
		}
	}
	for _, uid := range []string{"fedpace-run", "fedpace-stragglers", "fedpace-devices"} {
		if !linked[uid] {
			t.Errorf("no panel of another dashboard leads to %s", uid)
		}
	}
}

// checkLink refuses a link that does not keep what the reader chose, and returns where it leads.
func checkLink(t *testing.T, where, url string) string {
	uid, query, _ := strings.Cut(strings.TrimPrefix(url, "/d/"), "?")
	if query != "${run:queryparam}&${schedule:queryparam}&${seed:queryparam}&${instance:queryparam}&${__url_time_range}" {
		t.Errorf("%s: a link to %s does not keep the run and the time", where, url)
	}
	return uid
}

func checkVariables(t *testing.T, d *Dashboard) {
	t.Helper()
	list := d.Templating.List
	if len(list) == 0 || list[0].Name != "datasource" || list[0].Type != "datasource" || list[0].Query != "prometheus" {
		t.Errorf("%s: the first variable is not the data source", d.UID)
	}
	for _, v := range list[1:] {
		if v.Type != "query" || v.Datasource == nil || *v.Datasource != source {
			t.Errorf("%s: variable %s does not come from the data source", d.UID, v.Name)
		}
	}
}

// checkGrid finds panels that lie over each other, beyond the width or below a gap.
func checkGrid(t *testing.T, d *Dashboard) {
	t.Helper()
	taken := map[[2]int]string{}
	bottom := 0
	for _, p := range d.Panels {
		g := p.GridPos
		if g.W < 1 || g.H < 1 || g.X < 0 || g.Y < 0 || g.X+g.W > gridWidth {
			t.Errorf("%s: %s is at %+v", d.UID, p.Title, g)
		}
		bottom = max(bottom, g.Y+g.H)
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok {
					t.Fatalf("%s: %s lies over %s", d.UID, p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
	if len(taken) != bottom*gridWidth {
		t.Errorf("%s: %d of %d places are empty", d.UID, bottom*gridWidth-len(taken), bottom*gridWidth)
	}
}

// units are those of Grafana that are used here.
var units = []string{"", "none", "s", "percentunit", "Bps", "watt", "bytes"}

var kinds = []string{"timeseries", "stat", "table", "heatmap", "xychart"}

func checkPanel(t *testing.T, where string, p *Panel) {
	t.Helper()
	if !slices.Contains(kinds, p.Type) {
		t.Errorf("%s: a panel of type %q", where, p.Type)
	}
	if p.Datasource == nil || *p.Datasource != source {
		t.Errorf("%s: not from the data source that the reader chooses", where)
	}
	if p.FieldConfig == nil || !slices.Contains(units, p.FieldConfig.Defaults.Unit) {
		t.Errorf("%s: unit %q", where, p.FieldConfig.Defaults.Unit)
	}
	if len(p.Targets) == 0 {
		t.Errorf("%s: nothing is asked for", where)
	}
	if p.Type == "stat" && p.FieldConfig.Defaults.Thresholds == nil {
		t.Errorf("%s: no thresholds say what is well", where)
	}
	refs := map[string]bool{}
	for _, q := range p.Targets {
		if q.RefID == "" || refs[q.RefID] {
			t.Errorf("%s: query %q is not one of its own", where, q.RefID)
		}
		refs[q.RefID] = true
		if q.Datasource == nil || *q.Datasource != source || q.Range == q.Instant {
			t.Errorf("%s: query %s: from the data source, over a range or at an instant", where, q.RefID)
		}
		if (p.Type == "timeseries" || p.Type == "xychart") && q.LegendFormat == "" {
			t.Errorf("%s: query %s: its series have no names", where, q.RefID)
		}
	}
	if p.Type == "xychart" {
		checkAxes(t, where, p)
	}
}

// checkAxes finds a chart whose axes name no series: it would stay empty.
func checkAxes(t *testing.T, where string, p *Panel) {
	t.Helper()
	var options struct {
		Series []struct {
			X, Y struct{ Matcher Matcher }
		}
	}
	text, err := json.Marshal(p.Options)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &options); err != nil {
		t.Fatal(err)
	}
	if len(options.Series) != len(p.Targets)-1 {
		t.Errorf("%s: %d series of %d queries and one for the axis", where, len(options.Series), len(p.Targets)-1)
	}
	var names []string
	for _, q := range p.Targets {
		names = append(names, q.LegendFormat)
	}
	for _, s := range options.Series {
		if !slices.Contains(names, s.X.Matcher.Options) || !slices.Contains(names, s.Y.Matcher.Options) {
			t.Errorf("%s: %s against %s: no query has that name", where, s.Y.Matcher.Options, s.X.Matcher.Options)
		}
	}
}

// Every query is of the run that the reader chose, in the overview of the runs,
// and every metric is one that a run has.
func TestQueries_RunAndKnownMetrics(t *testing.T) {
	known := map[string]bool{}
	for _, c := range metrics.ColumnsOf() {
		if c.Metric != "-" {
			known[c.Metric] = true
		}
	}
	for _, name := range []string{"collect.go", "metrics.go"} {
		text, err := os.ReadFile("../../metrics/prometheus/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?:\.add|options)\(\s*"([a-z0-9_]+)"`).FindAllStringSubmatch(string(text), -1) {
			known[m[1]] = true
		}
	}
	selector := regexp.MustCompile(`(?:fedpace_[a-z0-9_]+|ALERTS)(\{[^}]*\})?`)
	const one, several = `run="$run", schedule="$schedule", seed="$seed", instance="$instance"`, `run=~"$run", schedule=~"$schedule", seed=~"$seed", instance=~"$instance"`
	for _, d := range dashboards(t) {
		want := one
		switch d.UID {
		case "fedpace-runs":
			want = several
		case virtualTime:
			want, _, _ = strings.Cut(several, ", instance")
		}
		panels := d.Panels
		for _, a := range d.Annotations.List {
			panels = append(panels, Panel{Title: a.Name, Targets: []Target{{Expr: a.Expr}}})
		}
		for _, p := range panels {
			for _, q := range p.Targets {
				for _, s := range selector.FindAllString(q.Expr, -1) {
					name, labels, _ := strings.Cut(s, "{")
					if !strings.HasPrefix(labels, want) {
						t.Errorf("%s: %s: %s is not of the runs that the reader chose", d.UID, p.Title, s)
					}
					if name == "ALERTS" {
						continue
					}
					base := strings.TrimPrefix(name, "fedpace_")
					if virtual, ok := strings.CutPrefix(base, "virtual_"); ok == (d.UID == virtualTime) && ok {
						base = virtual
					}
					for _, suffix := range []string{"_bucket", "_sum", "_count"} {
						base = strings.TrimSuffix(base, suffix)
					}
					if !known[base] {
						t.Errorf("%s: %s: %s is no metric of a run", d.UID, p.Title, name)
					}
				}
			}
		}
	}
}

// Grafana finds the data source and the dashboards where the files say.
func TestProvisioning(t *testing.T) {
	read := func(path string, into any) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
	var sources struct {
		Datasources []struct{ Type, URL string }
	}
	read("provisioning/datasources/prometheus.yml", &sources)
	if len(sources.Datasources) != 1 || sources.Datasources[0].Type != "prometheus" {
		t.Errorf("data sources %+v", sources)
	}
	var providers struct {
		Providers []struct {
			Type    string
			Options struct{ Path string }
		}
	}
	read("provisioning/dashboards/fedpace.yml", &providers)
	if len(providers.Providers) != 1 || providers.Providers[0].Type != "file" || providers.Providers[0].Options.Path == "" {
		t.Errorf("providers %+v", providers)
	}
}

// A panel that reads classic buckets reads the native histogram first, which has no last bucket.
func TestDashboards_NativeHistogramsFirst(t *testing.T) {
	bucket := regexp.MustCompile(`(fedpace_[a-z_]+)_bucket(\{[^}]*\})`)
	read := 0
	for _, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, q := range p.Targets {
				classic := bucket.FindStringSubmatchIndex(q.Expr)
				if classic == nil {
					continue
				}
				read++
				native := q.Expr[classic[2]:classic[3]] + q.Expr[classic[4]:classic[5]]
				if i := strings.Index(q.Expr, native); i < 0 || i > classic[0] {
					t.Errorf("%s: %s: %s does not begin with %s", d.UID, p.Title, q.Expr, native)
				}
			}
		}
	}
	if read != 11 {
		t.Errorf("%d queries read histograms, want 11", read)
	}
}
