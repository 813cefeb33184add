package plugins

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpace/actors/fleet"
	"fedpace/algorithm"
	"fedpace/algorithm/combine"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
	"fedpace/coordinator/selection"
	"fedpace/data"
	"fedpace/data/federated"
	"fedpace/learn"
	"fedpace/metrics"
)

func TestShortFloats_Cut(t *testing.T) {
	update := []float32{1, -1.75, 1.0001, 0}
	c := ShortFloats{Fraction: 1}
	c.Compressor(4).Compress(update, nil)
	if diff := cmp.Diff([]float32{1, -1.5, 1, 0}, update); diff != "" || c.Bits(4) != 40 {
		t.Errorf("%s, %d bits", diff, c.Bits(4))
	}
}

func TestStubborn_HardlyMoves(t *testing.T) {
	update, acts := []float32{1, -2}, Stubborn{Part: 0.5}.Behaviour()
	acts.Update(update, 1)
	if diff := cmp.Diff([]float32{0.5, -1}, update); diff != "" || acts.Loss(7) != 1 {
		t.Errorf("%s, a loss of %g", diff, acts.Loss(7))
	}
}

func TestShare_ClosesRound(t *testing.T) {
	for _, test := range []struct {
		accepted int
		want     bool
	}{{0, false}, {6, false}, {7, true}, {10, true}} {
		if got := (Share{Of: 0.7}).Close(closing.Standing{Cohort: 10, Accepted: test.accepted}); got != test.want {
			t.Errorf("%d of 10 updates: %v, want %v", test.accepted, got, test.want)
		}
	}
}

func TestTurns_Clients(t *testing.T) {
	order, err := InTurn{}.Order(selection.Setup{Clients: 5, Cohort: 2})
	if err != nil {
		t.Fatal(err)
	}
	order.Start(2, 0)
	var got []int
	for {
		client, ok := order.Next()
		if !ok {
			break
		}
		got = append(got, client)
	}
	if diff := cmp.Diff([]int{2, 3, 4, 0, 1}, got); diff != "" {
		t.Error(diff)
	}
}

// A fleet of old and new devices that take turns and get hot.
func TestDevice_Laws(t *testing.T) {
	const second = 1_000_000_000
	devices, err := fleet.NewFleet(fleet.Config{
		Network:      fleet.Network{DownloadMbps: 1, UploadMbps: 1},
		Slowdown:     Throttle{AfterSeconds: 10, Factor: 3},
		Availability: Shifts{Shifts: 2, Seconds: 60},
		Fleet:        []fleet.Class{{Name: "any", SecondsPerStep: TwoPoint{Low: 1, High: 2, Share: 0.5}}},
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	times := map[int64]int{}
	for client := range 1000 {
		d, err := devices.Durations(client, 1, 15, fleet.SameBits(1_000_000), 0)
		if err != nil {
			t.Fatal(err)
		}
		times[d.Compute/second]++
		if devices.Available(client, 59*second) != (client%2 == 0) || devices.NextChange(client, 59*second) != 60*second {
			t.Fatalf("client %d is not in its shift", client)
		}
	}
	// 15 steps of 1 s are 10 s and 5 s three times as slow; of 2 s: 10 s and 20 s.
	if len(times) != 2 || times[25] < 400 || times[70] < 400 {
		t.Errorf("clients by seconds: %v", times)
	}
	if _, err := (TwoPoint{Low: 2, High: 1}).Sampler(); err == nil || err.Error() != "high: 1 is below low, 2" {
		t.Error(err)
	}
}

func TestClipped_ShortSteps(t *testing.T) {
	c, local, gradient := Clipped{Rate: 1, Norm: 0.75}, []float32{-0.5, -0.25, -0.5}, []float32{2, 1, 2}
	c.Client(3).Correct(local, gradient)
	if diff := cmp.Diff([]float32{0.5, 0.25, 0.5}, gradient); diff != "" {
		t.Error(diff)
	}
	c.Server(3).Apply(local, []int64{algorithm.Unit / 2, 0, algorithm.Unit}, 1)
	if diff := cmp.Diff([]float32{0, -0.25, 0.5}, local); diff != "" {
		t.Error(diff)
	}
}

func TestLongUpdates_LeftOutOrShortened(t *testing.T) {
	got := make([]int64, 2)
	Shortest{Drop: 0.4}.Combine(got, [][]int64{{2, 3}, {900, 0}, {4, 1}, {6, -1}, {0, -800}}, nil)
	if diff := cmp.Diff([]int64{4, 1}, got); diff != "" {
		t.Error(diff)
	}
	c := combine.Clipper{Rule: Falling{First: 4, Factor: 0.5}}
	for _, want := range []float64{4, 2, 1} {
		bound, _, next := c.Factors([]float64{100})
		if bound != want {
			t.Errorf("a bound of %v, want %v", bound, want)
		}
		c.Advance(next)
	}
}

func TestSigns_Steps(t *testing.T) {
	params := []float32{1, 1, 1}
	Signs{WeightDecay: 0.5}.Stepper(3).Step(params, []float32{1e-9, -7, 0}, 0.25)
	if diff := cmp.Diff([]float32{0.625, 1.125, 0.875}, params); diff != "" {
		t.Error(diff)
	}
}

func TestPoints_Read(t *testing.T) {
	path := filepath.Join(t.TempDir(), "points.csv")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("client,label,x,y\nann,0,1,2\nbob,0,3,4\nann,1,5,6\nbob,1,7,8\nann,1,9,10\n")
	set, err := data.Open(path, federated.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b learn.Batch
	if err := set.Batch(&b, 0, []int32{0, 1}); err != nil {
		t.Fatal(err)
	}
	if err := set.HeldOutBatch(&b, 0, set.HeldOut()); err != nil {
		t.Fatal(err)
	}
	// Of three samples two are for training, of two one.
	if set.Clients() != 2 || set.Client(1) != "bob" || set.Samples(0) != 2 || set.Samples(1) != 1 || set.HeldOut() != 2 || b.N != 4 {
		t.Errorf("%d clients, %d held out, a batch of %+v", set.Clients(), set.HeldOut(), b)
	}
	for i, label := range b.Labels {
		if x, y := b.X[2*i], b.X[2*i+1]; y != x+1 || label == 1 != (x > 4) {
			t.Errorf("sample %d is %v, %v with label %d", i, x, y, label)
		}
	}
	write("client,label,x,y\nann,0,1,2\nann,2,1,2\n")
	if _, err := data.Open(path, federated.Options{}); err == nil || !strings.Contains(err.Error(), "points.csv: line 3: want a client") {
		t.Error(err)
	}
}

func TestScaled_ModelReadsBack(t *testing.T) {
	m, err := Scaled{Layers: []int{2, 3, 2}, Factor: 0.1}.Model(learn.Samples{Features: 2, Classes: 2})
	if err != nil {
		t.Fatal(err)
	}
	again, err := learn.Parse(m.String())
	if err != nil || again.String() != m.String() || m.String() != "scaled:0.1,2,3,2" {
		t.Errorf("%v is read back as %v, %v", m, again, err)
	}
	whole, err := learn.Parse("mlp:2,3,2")
	if err != nil {
		t.Fatal(err)
	}
	small, large := make([]float32, m.Params()), make([]float32, m.Params())
	m.Init(small, 1)
	whole.Init(large, 1)
	if small[0] != float32(0.1)*large[0] {
		t.Errorf("%v is not a tenth of %v", small[0], large[0])
	}
}

// memory is a file, and the folder that it is in.
type memory struct{ text string }

func (m *memory) Write(b []byte) (int, error)                         { m.text += string(b); return len(b), nil }
func (m *memory) Size() int64                                         { return int64(len(m.text)) }
func (m *memory) Append(string) (metrics.File, error)                 { return m, nil }
func (m *memory) Spool(string) (metrics.File, error)                  { return m, nil }
func (m *memory) Path(name string) string                             { return name }
func (m *memory) Replace(_ string, write func(io.Writer) error) error { return write(m) }

// An output that is restored in the middle writes what one writes that never
// stopped.
func TestReach_Restored(t *testing.T) {
	run := &metrics.Run{Clients: 10, Slowest: 1}
	open := func(folder *memory, state *metrics.State) *metrics.Recorder {
		r, err := metrics.Open(run, []metrics.Sink{Reach{File: "reach.csv"}})
		if err == nil {
			err = r.Start(&metrics.Start{Folder: folder}, state)
		}
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	folder := &memory{}
	r := open(folder, nil)
	for number, clients := range [][]int{{1, 2}, {2, 3}, {9}} {
		for _, client := range clients {
			r.Task(&round.TaskReport{Client: client, Outcome: round.Accepted})
		}
		r.Task(&round.TaskReport{Client: 7, Outcome: round.Late})
		if err := r.Round(&round.Report{Round: number + 1}); err != nil {
			t.Fatal(err)
		}
		state, err := r.Save()
		if err != nil {
			t.Fatal(err)
		}
		r = open(folder, &state)
	}
	if want := "1,2\n2,3\n3,4\n"; folder.text != want {
		t.Errorf("reach.csv is %q, want %q", folder.text, want)
	}
}

// The gradient of a network with the layer is the slope of its loss.
func TestLeaky_Gradient(t *testing.T) {
	m, err := learn.Parse("layers:values=4,targets=2;dense(5),leaky(0.25),dense(2)")
	if err != nil {
		t.Fatal(err)
	}
	params, gradient := make([]float32, m.Params()), make([]float32, m.Params())
	m.Init(params, 1)
	kernel, err := learn.SelectKernel("go")
	if err != nil {
		t.Fatal(err)
	}
	w := m.NewWorkspace(2, kernel)
	b := &learn.Batch{N: 2, X: []float32{1, -2, 3, -4, -5, 6, -7, 8}, Targets: []float32{1, -1, 0, 2}}
	if _, err := w.Gradient(gradient, params, b); err != nil {
		t.Fatal(err)
	}
	loss := func(i int, by float32) float64 {
		x := slices.Clone(params)
		x[i] += by
		sum, err := w.Evaluate(x, b, make([]learn.Score, 1))
		if err != nil {
			t.Fatal(err)
		}
		return sum / 2
	}
	for i, g := range gradient {
		const h = 1.0 / 256
		if slope := (loss(i, h) - loss(i, -h)) / (2 * h); math.Abs(slope-float64(g)) > 1e-3*(1+math.Abs(slope)) {
			t.Errorf("parameter %d has the gradient %v, and the loss the slope %v", i, g, slope)
		}
	}
}
