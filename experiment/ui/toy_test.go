package ui_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/experiment/report"
	"fedpace/experiment/run"
	"fedpace/experiment/runtest"
	"fedpace/metrics"
	"fedpace/metrics/live"
	"fedpace/metrics/outputs"
	"fedpace/metrics/prometheus"
	"fedpace/metrics/tables"
)

// A value of a round costs one entry of the list of columns: it is then in rounds.csv, in
// rounds.parquet, OpenMetrics, Prometheus, TensorBoard, on the live page, on the page of many
// runs, and in the figures of a report.
func TestToy_OneEntry(t *testing.T) {
	before := metrics.Columns
	defer func() { metrics.Columns = before }()
	metrics.Columns = append(before[:len(before):len(before)], metrics.Column{
		Name: "toy", Help: "clients that the selection left out, and a toy", Unit: "clients", Title: "A toy", Figure: true,
		Field: func(r *round.Report) any { return &r.Excluded },
	})

	dir := filepath.Join(t.TempDir(), "run")
	c, err := config.Load("", []string{
		"task=femnist", "train=false", "clients=200", "cohort=10", "stop.rounds=8", "close={rule: deadline, seconds: 2.9}", "select=fit", "fleet=[{name: phone}, {name: slow, seconds_per_step: 10}]",
		"outputs=[tensorboard]", "out=" + dir,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Run(context.Background(), c, run.Options{Version: "test"}); err != nil {
		t.Fatal(err)
	}
	rounds, err := runtest.ReadRounds(filepath.Join(dir, folder.RoundsFile))
	if err != nil {
		t.Fatal(err)
	}
	var want []float64
	sum := 0
	for _, r := range rounds {
		want = append(want, float64(r.Excluded))
		sum += r.Excluded
	}
	if sum == 0 {
		t.Fatal("the run leaves out nobody: it is not what this test needs")
	}
	last := want[len(want)-1]

	text := string(read(t, filepath.Join(dir, folder.RoundsFile)))
	if header, _, _ := strings.Cut(text, "\n"); !slices.Contains(strings.Split(header, ","), "toy") {
		t.Errorf("%s begins %s", folder.RoundsFile, header)
	}
	type row struct {
		Toy int32 `parquet:"toy"`
	}
	rows, err := parquet.ReadFile[row](filepath.Join(dir, tables.RoundsFile))
	if err != nil || len(rows) != len(want) || float64(rows[len(rows)-1].Toy) != last {
		t.Errorf("%s holds %v, %v, want %v", tables.RoundsFile, rows, err, want)
	}
	var open bytes.Buffer
	if _, err := report.ExportOpenMetrics(dir, &open, time.Unix(0, 0)); err != nil || !strings.Contains(open.String(), "# HELP fedpace_virtual_toy Clients that the selection left out, and a toy.") {
		t.Errorf("OpenMetrics: %v: %.500s", err, open.String())
	}
	scraped := prometheus.New(&metrics.Run{Name: "demo"})
	if err := scraped.Round(&metrics.Round{Report: rounds[len(rounds)-1], Usage: &metrics.Usage{}}); err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	scraped.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if got := answer.Body.String(); !strings.Contains(got, "\nfedpace_toy{") {
		t.Errorf("Prometheus: %.500s", got)
	}
	if !bytes.Contains(read(t, filepath.Join(dir, outputs.TensorBoardFile)), []byte("round/toy")) {
		t.Error("TensorBoard has no round/toy")
	}
	if page := read(t, filepath.Join(dir, live.File)); !bytes.Contains(page, []byte(`"name":"toy"`)) {
		t.Error("the run's own page does not have the column")
	}

	library, address := served(t, filepath.Dir(dir))
	id := struct{ Runs []struct{ ID string } }{}
	if err := json.Unmarshal(get(t, address+"runs.json"), &id); err != nil {
		t.Fatal(err)
	}
	var shown struct {
		Columns []struct {
			Name, Title string
			Value       *float64
		}
		Curves map[string]any
	}
	if err := json.Unmarshal(get(t, address+"snapshot.json?run="+id.Runs[0].ID), &shown); err != nil {
		t.Fatal(err)
	}
	if c := shown.Columns[len(shown.Columns)-1]; c.Name != "toy" || c.Title != "A toy" || *c.Value != last {
		t.Errorf("a run's page shows %+v, want %v", c, last)
	}
	if points := shown.Curves["toy"].([]any); len(points) != len(want) || points[len(points)-1] != last {
		t.Errorf("its curve is %v, want %v", points, want)
	}
	curve := columnOf(t, get(t, address+"curves.bin?run="+id.Runs[0].ID), "toy")
	if !slices.Equal(curve, want) {
		t.Errorf("the curve on the page of many runs is %v, want %v", curve, want)
	}
	var exported, figures bytes.Buffer
	if _, err := library.Export(&exported, nil); err != nil {
		t.Fatal(err)
	}
	if kept := columnOf(t, unpacked(t, exported.Bytes(), "curves-"+id.Runs[0].ID), "toy"); !slices.Equal(kept, want) {
		t.Errorf("the curve in the file is %v, want %v", kept, want)
	}
	runs, _, err := report.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Figures(&figures, runs); err != nil || !strings.Contains(figures.String(), ">femnist: A toy<") {
		t.Errorf("a report's figure has no panel of it: %v", err)
	}
}

// columnOf is a column of a curves.bin.
func columnOf(t *testing.T, text []byte, name string) (values []float64) {
	t.Helper()
	length := int(binary.LittleEndian.Uint32(text))
	var head struct {
		Rounds  int
		Columns []struct{ Name string }
	}
	if err := json.Unmarshal(text[4:4+length], &head); err != nil {
		t.Fatal(err)
	}
	at := (4 + length + 7) / 8 * 8
	for i, c := range head.Columns {
		if c.Name == name {
			for n := range head.Rounds {
				values = append(values, math.Float64frombits(binary.LittleEndian.Uint64(text[at+8*(i*head.Rounds+n):])))
			}
		}
	}
	if len(values) == 0 {
		t.Fatalf("no column %s among %v", name, head.Columns)
	}
	return values
}

// unpacked is a document of a page that holds many runs.
func unpacked(t *testing.T, page []byte, id string) []byte {
	t.Helper()
	_, rest, found := bytes.Cut(page, []byte(` id="`+id+`"`))
	_, rest, _ = bytes.Cut(rest, []byte(">"))
	text, _, _ := bytes.Cut(rest, []byte("<"))
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(text)))
	if err != nil || !found {
		t.Fatalf("the page does not hold %s: %v", id, err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func get(t *testing.T, url string) []byte {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v: %s", url, r.Status, err, text)
	}
	return text
}
