package openmetrics

import (
	"io"
	"iter"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/snappy"
	"google.golang.org/protobuf/encoding/protowire"

	"fedpace/coordinator/round"
	"fedpace/learn/metric"
	"fedpace/metrics"
)

// fields are those of a protobuf message, by number.
func fields(t *testing.T, b []byte) map[protowire.Number][][]byte {
	t.Helper()
	all := map[protowire.Number][][]byte{}
	for len(b) > 0 {
		n, kind, tag := protowire.ConsumeTag(b)
		size := protowire.ConsumeFieldValue(n, kind, b[tag:])
		if tag < 0 || size < 0 {
			t.Fatal("no message")
		}
		v := b[tag : tag+size]
		if kind == protowire.BytesType {
			v, _ = protowire.ConsumeBytes(v)
		}
		all[n], b = append(all[n], v), b[tag+size:]
	}
	return all
}

type sample struct {
	At    int64
	Value uint64 // its bits
}

// receiver is a Prometheus that answers the first requests with a status of its own.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	refuse []int
	series map[string][]sample
}

func receive(t *testing.T, refuse ...int) *receiver {
	r := &receiver{refuse: refuse, series: map[string][]sample{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.refuse) > 0 {
			w.WriteHeader(r.refuse[0])
			r.refuse = r.refuse[1:]
			return
		}
		packed, _ := io.ReadAll(q.Body)
		text, err := snappy.Decode(nil, packed)
		if err != nil || q.URL.Path != "/api/v1/write" {
			t.Errorf("%s: %v", q.URL, err)
		}
		for _, series := range fields(t, text)[1] {
			of, name := fields(t, series), []string{}
			for _, label := range of[1] {
				pair := fields(t, label)
				name = append(name, string(pair[1][0])+"="+string(pair[2][0]))
			}
			if !slices.IsSorted(name) {
				t.Errorf("%v are not sorted", name)
			}
			v := fields(t, of[2][0])
			bits, _ := protowire.ConsumeFixed64(v[1][0])
			at, _ := protowire.ConsumeVarint(v[2][0])
			key := strings.Join(name, ",")
			r.series[key] = append(r.series[key], sample{int64(at), bits})
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// many are rounds of which up to three stand at one millisecond.
func many(n int) (list []round.Report) {
	at := round.Time(0)
	for i := range n {
		start := at
		at += []round.Time{1_700_000, 200_000, 0, 2_400_000, 1_100_000}[i%5]
		list = append(list, round.Report{
			Round: i + 1, Start: start, End: at, LocalSteps: 1 + i%7, Outcomes: [round.Outcomes]int{round.Accepted: i % 3},
			TrainingLoss: 1 / float64(i+1), ValidationLoss: math.NaN(), SGDSteps: int64(i),
		})
	}
	return list
}

// sent plays rounds, of which so many are from before, through the output and returns what is told.
func sent(t *testing.T, to string, rounds []round.Report, before int) (told []string) {
	t.Helper()
	run := &metrics.Run{Name: "r", Metrics: []metric.Metric{{Name: metric.Accuracy}}, Notice: func(line string) { told = append(told, line) }}
	o, err := Remote{URL: to, Epoch: "2026-01-02T03:00:00Z"}.Open(run)
	if err != nil {
		t.Fatal(err)
	}
	o.(*sender).patience = time.Hour
	var mu sync.Mutex
	done := before
	s := &metrics.Start{Rounds: iter.Seq2[round.Report, error](func(yield func(round.Report, error) bool) {
		mu.Lock()
		list := rounds[:done]
		mu.Unlock()
		for _, r := range list {
			if !yield(r, nil) {
				return
			}
		}
	})}
	if before > 0 {
		s.Last = &metrics.Round{Report: rounds[before-1]}
	}
	if err := o.(*sender).Start(s); err != nil {
		t.Fatal(err)
	}
	for _, r := range rounds[before:] {
		mu.Lock()
		done++
		mu.Unlock()
		if err := o.Round(&metrics.Round{Report: r}); err != nil {
			t.Fatal(err)
		}
	}
	_ = o.(*sender).Finish(&metrics.End{Completed: true})
	if err := o.(*sender).Close(nil); err != nil {
		t.Fatal(err)
	}
	return told
}

// wantRounds checks that r has received what one request with all rounds of the list holds.
func wantRounds(t *testing.T, r *receiver, list []round.Report) {
	t.Helper()
	whole := receive(t)
	o := sender{run: &metrics.Run{Name: "r", Metrics: []metric.Metric{{Name: metric.Accuracy}}}, epoch: epoch}
	response, err := http.Post(whole.URL+"/api/v1/write", "", strings.NewReader(string(snappy.Encode(nil, o.encode(list)))))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if diff := cmp.Diff(whole.series, r.series); diff != "" || len(r.series) < 8 {
		t.Error(diff[:min(len(diff), 2000)])
	}
}

// Rounds that close while the folder is read, where they then stand already, arrive once.
func TestRounds_CloseWhileRead(t *testing.T) {
	list := many(9)
	r := receive(t)
	run := &metrics.Run{Name: "r", Metrics: []metric.Metric{{Name: metric.Accuracy}}}
	output, err := Remote{URL: r.URL, Epoch: "2026-01-02T03:00:00Z"}.Open(run)
	if err != nil {
		t.Fatal(err)
	}
	o := output.(*sender)
	defer o.stop()
	o.behind = true
	o.rounds = func(yield func(round.Report, error) bool) {
		for i, report := range list[:8] {
			if i >= 5 {
				_ = o.Round(&metrics.Round{Report: report})
			}
			if !yield(report, nil) {
				return
			}
		}
	}
	o.sendPending(false)
	_ = o.Round(&metrics.Round{Report: list[8]})
	o.sendPending(true)
	wantRounds(t, r, list)
}

// What arrives is what the file has, in one piece or many, beyond what memory holds, from a run that
// is resumed, and after a failure that passes; a request that is refused costs its rounds, and no run.
func TestRounds_Arrive(t *testing.T) {
	for name, of := range map[string]struct {
		rounds, before int
		refuse         []int
		told           string
	}{
		"few": {rounds: 3}, "many": {rounds: 1100}, "more than memory holds": {rounds: maxWaiting + 1000}, "resumed": {rounds: 1100, before: 600},
		"a failure that passes": {rounds: 40, refuse: []int{500}, told: "remote_write: rounds from 1 on wait: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := many(of.rounds)
			r := receive(t, of.refuse...)
			told := strings.Join(sent(t, r.URL, list, of.before), "\n")
			if !strings.HasPrefix(told, of.told) || of.told == "" && told != "" {
				t.Errorf("told %q", told)
			}
			wantRounds(t, r, list)
		})
	}
	refused := receive(t, 400)
	if told := sent(t, refused.URL, many(700), 0); len(told) != 1 || !strings.HasPrefix(told[0], "remote_write: rounds from 1 on are refused: ") || len(refused.series) == 0 {
		t.Errorf("%v, %d series", told, len(refused.series))
	}
}

func TestRemote_BadOptions(t *testing.T) {
	for _, r := range []Remote{{URL: "localhost", Epoch: "2026-01-02T03:00:00Z"}, {URL: "http://localhost:9090", Epoch: "today"}, {URL: "http://localhost:9090", Epoch: "1969-01-02T03:00:00Z"}} {
		if _, err := r.Open(&metrics.Run{}); err == nil {
			t.Errorf("%+v is accepted", r)
		}
	}
}
