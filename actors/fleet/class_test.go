package fleet

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// correlation returns Pearson's correlation of x and y.
func correlation(x, y []float64) float64 {
	var sx, sy, sxx, syy, sxy float64
	n := float64(len(x))
	for i := range x {
		sx += x[i]
		sy += y[i]
	}
	for i := range x {
		dx, dy := x[i]-sx/n, y[i]-sy/n
		sxx += dx * dx
		syy += dy * dy
		sxy += dx * dy
	}
	return sxy / math.Sqrt(sxx*syy)
}

// logs returns the logarithms of the phases of n clients in one task. They are normal, so they are independent if
// they are not correlated.
func logs(t testing.TB, f *Fleet, first int, task uint64, n int) (down, compute, up []float64) {
	for client := first; client < first+n; client++ {
		d, err := f.Durations(client, task, 1, SameBits(6_710_000), 0)
		if err != nil {
			t.Fatal(err)
		}
		down, compute, up = append(down, math.Log(float64(d.Download))), append(compute, math.Log(float64(d.Compute))), append(up, math.Log(float64(d.Upload)))
	}
	return down, compute, up
}

// Quantities, clients and tasks are independent, but for what a client keeps:
// with log-variances s² of its own and v² by task, its logarithms in two tasks
// correlate by s²/(s²+v²).
func TestClass_Independence(t *testing.T) {
	const n = 1 << 16
	const own, vary = 0.5, 0.3
	speed := Lognormal{Median: 10, Sigma: own}
	factor := Lognormal{Mean: 1, Sigma: vary}
	f, err := NewFleet(Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Fleet: []Class{{
		DownloadMbps: speed, UploadMbps: speed, SecondsPerStep: speed, Vary: Vary{Download: factor, Upload: factor, Compute: factor},
	}}}, 21)
	if err != nil {
		t.Fatal(err)
	}
	down, compute, up := logs(t, f, 0, 1, n)
	_, neighbour, _ := logs(t, f, 1, 1, n)
	downLater, later, _ := logs(t, f, 0, 2, n)
	kept := own * own / (own*own + vary*vary)
	for _, c := range []struct {
		name string
		x, y []float64
		want float64
	}{
		{"download and compute", down, compute, 0},
		{"download and upload", down, up, 0},
		{"compute and upload", compute, up, 0},
		{"neighbouring clients", compute, neighbour, 0},
		{"download and a later task's compute", down, later, 0},
		{"one client's compute in two tasks", compute, later, kept},
		{"one client's download in two tasks", down, downLater, kept},
	} {
		// Fisher: artanh of the correlation is normal with variance 1/(n-3).
		if z := (math.Atanh(correlation(c.x, c.y)) - math.Atanh(c.want)) * math.Sqrt(n-3); math.Abs(z) > 5 {
			t.Errorf("%s: correlation %.4f, want %.4f (%.1f sd)", c.name, correlation(c.x, c.y), c.want, z)
		}
	}
	// What varies by task alone is independent between the tasks of a client.
	f, err = NewFleet(Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Compute: Compute{SecondsPerStep: 1}, Fleet: []Class{{Vary: Vary{Compute: factor}}}}, 21)
	if err != nil {
		t.Fatal(err)
	}
	var x []float64
	for task := range uint64(n + 1) {
		d, err := f.Durations(12, task, 1, SameBits(0), 0)
		if err != nil {
			t.Fatal(err)
		}
		x = append(x, math.Log(float64(d.Compute)))
	}
	for _, lag := range []int{1, 2, 16} {
		if z := correlation(x[lag:], x[:len(x)-lag]) * math.Sqrt(n); math.Abs(z) > 5 {
			t.Errorf("tasks %d apart correlate (%.1f sd)", lag, z)
		}
	}
}

// Tasks that start at the same time have the n-th values of all laws together, in both classes and
// all phases; at other times they have others, each equally often.
func TestClass_SimultaneousTasks(t *testing.T) {
	of := func(values ...float64) Vary {
		speeds := make([]float64, len(values))
		for i, x := range values {
			speeds[i] = 1 / x
		}
		return Vary{Compute: Empirical{Values: values}, Download: Empirical{Values: speeds}, Upload: Empirical{Values: speeds}, Together: true}
	}
	f, err := NewFleet(Config{Network: Network{DownloadMbps: 1, UploadMbps: 1}, Compute: Compute{SecondsPerStep: 1}, Fleet: []Class{
		{Name: "a", Count: 5, Vary: of(1, 2, 3)}, {Name: "b", Count: 5, Vary: of(30, 10, 20)},
	}}, 3)
	if err != nil {
		t.Fatal(err)
	}
	const n = 3000
	seen := map[int64]int{}
	for at := range int64(n) {
		a, err := f.Durations(1, uint64(at), 1, SameBits(1e6), at)
		if err != nil {
			t.Fatal(err)
		}
		other, err := f.Durations(7, 5, 1, SameBits(1e6), at)
		if err != nil {
			t.Fatal(err)
		}
		first, second := a.Compute/second, other.Compute/second
		if second != map[int64]int64{1: 30, 2: 10, 3: 20}[first] {
			t.Fatalf("at %d ns a step of the one takes %d s, of the other %d s", at, first, second)
		}
		for _, d := range []Durations{a, other} {
			if x := d.Compute; d.Download/1e6 != x/1e6 || d.Upload/1e6 != x/1e6 {
				t.Fatalf("at %d ns the phases are not together: %+v", at, d)
			}
		}
		seen[first]++
	}
	for x, times := range seen { // binomial, 5 standard deviations
		if math.Abs(float64(times)-n/3.) > 5*math.Sqrt(n*2/9.) {
			t.Errorf("%d s are drawn %d times of %d, want a third", x, times, n)
		}
	}
	mean, err := f.MeanOf(0, 1, SameBits(0))
	if err != nil || math.Abs(float64(mean.Compute)/second-2) > 0.06 {
		t.Errorf("the mean step takes %v s, want 2 (%v)", float64(mean.Compute)/second, err)
	}
}

// A class has what it does not give from the config: with nothing of its own
// it is the population without classes, bit for bit.
func TestClass_ClassesInherit(t *testing.T) {
	base := Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Compute: Compute{SecondsPerStep: 0.017, Std: 5.1e-4},
		Dropout: Dropout{Probability: 0.2}, Slowdown: SlowPeriods{EverySeconds: 60, ForSeconds: 5, Factor: Constant{Value: 3}}}
	plain, err := NewFleet(base, 1)
	if err != nil {
		t.Fatal(err)
	}
	base.Fleet = []Class{{Name: "a"}, {Name: "b"}}
	classes, err := NewFleet(base, 1)
	if err != nil {
		t.Fatal(err)
	}
	for client := range 2000 {
		a, err := plain.Plan(plain.Client(client), 5, 80, SameBits(6_710_000), int64(client)*second)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := classes.Plan(classes.Client(client), 5, 80, SameBits(6_710_000), int64(client)*second); err != nil || a != b {
			t.Fatalf("client %d: %+v without classes, %+v, %v with", client, a, b, err)
		}
	}
}

// Eq. 3 to the nanosecond for classes of constant devices, the clients shared
// between them by weight.
func TestClass_ConstantClasses(t *testing.T) {
	const n = 100_000
	f, err := NewFleet(Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Compute: Compute{SecondsPerStep: 0.017}, Fleet: []Class{
		{Name: "board", Weight: 1, SecondsPerStep: Constant{Value: 0.31}},
		{Name: "phone", Weight: 3, DownloadMbps: Constant{Value: 40}},
	}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	want := []Durations{{335_500_000, 80 * 310_000_000, 1_342_000_000}, {167_750_000, 80 * 17_000_000, 1_342_000_000}}
	boards := 0.0
	for client := range n {
		k := f.Class(client)
		if k == 0 {
			boards++
		}
		if d, err := f.Durations(client, uint64(client), 80, SameBits(6_710_000), 0); err != nil || d != want[k] {
			t.Fatalf("client %d of %s: %+v, %v; want %+v", client, f.Classes()[k], d, err, want[k])
		}
	}
	if z := (boards/n - 0.25) / math.Sqrt(0.25*0.75/n); math.Abs(z) > 5 {
		t.Errorf("%g of the clients are boards, want a quarter (%.1f sd)", boards/n, z)
	}
	mean, err := f.Mean(80, SameBits(6_710_000))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := float64(mean.Compute), 80*(0.25*0.31+0.75*0.017)*1e9; math.Abs(got/want-1) > 0.1 {
		t.Errorf("the mean of the compute times is %g ns, want about %g", got, want)
	}
}

// Means against their laws: by Eq. 3, slowdowns at the pace of the long run,
// and with classes within five standard deviations of the sample's mean.
func TestClass_Mean(t *testing.T) {
	c := Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Compute: Compute{SecondsPerStep: 0.017, Std: 0.1}}
	for _, x := range []struct {
		name string
		slow Slowdown
		want Durations
	}{
		{"without spread", SlowPeriods{}, Durations{335_500_000, 1_360_000_000, 1_342_000_000}},
		{"computing slowed", SlowPeriods{EverySeconds: 10, ForSeconds: 5, Factor: Constant{Value: 3}}, Durations{335_500_000, 2_040_000_000, 1_342_000_000}},
		{"all slowed", SlowPeriods{EverySeconds: 10, ForSeconds: 5, Factor: Constant{Value: 3}, Links: true}, Durations{503_250_000, 2_040_000_000, 2_013_000_000}},
	} {
		c.Slowdown = x.slow
		f, err := NewFleet(c, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := f.Mean(80, SameBits(6_710_000)); err != nil || got != x.want {
			t.Errorf("%s: %+v, %v; want %+v", x.name, got, err, x.want)
		}
		if _, err := f.Mean(80, SameBits(math.MaxInt64)); err == nil {
			t.Errorf("%s: a transfer of ages has a mean", x.name)
		}
	}
	f, err := NewFleet(Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Fleet: []Class{{SecondsPerStep: ShiftedExponential{Mean: 3, Shift: 1}}}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	got, err := f.Mean(10, SameBits(6_710_000))
	if z := (float64(got.Compute)/second/10 - 3) / (2 / math.Sqrt(4096)); err != nil || math.Abs(z) > 5 || got.Download != 335_500_000 {
		t.Errorf("%+v, %v: compute is %.1f sd from 30 s", got, err, z)
	}
	if _, err := f.Mean(10, SameBits(math.MaxInt64)); err == nil {
		t.Error("a transfer of ages has a mean")
	}
}

func TestClass_Constant(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   bool
	}{
		{"all alike", func(*Config) {}, true},
		{"one class without anything of its own", func(c *Config) { c.Fleet = []Class{{}} }, true},
		{"random minibatch times", func(c *Config) { c.Compute.Std = 1e-4 }, false},
		{"two classes", func(c *Config) { c.Fleet = make([]Class, 2) }, false},
		{"links", func(c *Config) { c.Fleet = []Class{{Links: made(t, 10)}} }, false},
		{"a factor by task", func(c *Config) {
			c.Fleet = []Class{{Vary: Vary{Compute: Uniform{Min: 1, Max: 2}}}}
		}, false},
		{"slowdowns", func(c *Config) { c.Slowdown = SlowPeriods{EverySeconds: 9, ForSeconds: 1, Factor: Constant{Value: 2}} }, false},
		{"absences", func(c *Config) { c.Availability = models3()[0] }, false},
		{"dropouts", func(c *Config) { c.Dropout.Probability = 0.1 }, false},
	} {
		config := Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Compute: Compute{SecondsPerStep: 0.017}}
		c.change(&config)
		f, err := NewFleet(config, 1)
		if err != nil {
			t.Fatal(err)
		}
		if f.Constant() != c.want {
			t.Errorf("%s: constant is %v", c.name, f.Constant())
		}
		if mean, err := f.Mean(80, SameBits(6_710_000)); f.Constant() {
			if d, again := f.Durations(5, 9, 80, SameBits(6_710_000), 3); err != nil || again != nil || d != mean {
				t.Errorf("%s: a task takes %+v, the mean is %+v (%v, %v)", c.name, d, mean, err, again)
			}
		}
	}
}

// Bits fall into the share that they are below; a class without weight is never picked.
func TestClass_Pick(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(0.01, 10), rapid.Just(0.0)), 0, 40).Draw(t, "weights")
		weights = slices.Insert(weights, rapid.IntRange(0, len(weights)).Draw(t, "at"), 1)
		bounds, err := shares("x", weights, func(i int) bool { return weights[i] == 0 })
		if err != nil {
			t.Fatal(err)
		}
		h := rapid.OneOf(rapid.Uint64(), rapid.SampledFrom(bounds)).Draw(t, "h")
		want, last := 0, len(weights)-1
		for weights[last] == 0 {
			last--
		}
		for want < last && (h >= bounds[want] || weights[want] == 0) {
			want++
		}
		if got := pick(bounds, h); got != want {
			t.Fatalf("%#x falls into share %d, want %d", h, got, want)
		}
	})
}

// The coefficient of variation is that of a single minibatch: the sum of K has
// 1/sqrt(K) of it.
func TestClass_StepCV(t *testing.T) {
	const n, steps = 50_000, 25
	f, err := NewFleet(Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Fleet: []Class{{SecondsPerStep: Constant{Value: 2}, StepCV: 0.5}}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	sum, squares := 0.0, 0.0
	for client := range n {
		d, err := f.Durations(client, 1, steps, SameBits(0), 0)
		if err != nil {
			t.Fatal(err)
		}
		s := float64(d.Compute) / second
		sum += s
		squares += s * s
	}
	mean := sum / n
	cv := math.Sqrt(squares/n-mean*mean) / mean
	if math.Abs(mean/(steps*2)-1) > 0.003 || math.Abs(cv/(0.5/math.Sqrt(steps))-1) > 0.02 {
		t.Errorf("mean %g, cv %g; want %d, %g", mean, cv, steps*2, 0.5/math.Sqrt(steps))
	}
}

// anyFleet draws a fleet with classes of any kind. No speed can reach zero, and no task of up to 200 steps or 40
// million bits takes three years, which is refused.
func anyFleet(t *rapid.T, links Links, recorded string) *Fleet {
	c := Config{
		Network:      Network{DownloadMbps: 20, UploadMbps: 5},
		Compute:      Compute{SecondsPerStep: 0.01, Std: rapid.SampledFrom([]float64{0, 0.1}).Draw(t, "std")},
		Availability: anyAvailability(t, recorded),
	}
	given := func(name string, most float64) Distribution {
		if rapid.Bool().Draw(t, name+" given") {
			return anyDistribution(t, name, most)
		}
		return nil
	}
	speed := func(name string) Distribution { return given(name, 1e4) }
	vary := func(name string) Distribution { return given("vary "+name, 10) }
	for i := range rapid.IntRange(0, 3).Draw(t, "classes") {
		k := Class{Name: string(rune('a' + i)), SecondsPerStep: speed("step"), StepCV: rapid.SampledFrom([]float64{0, 2}).Draw(t, "cv")}
		k.Vary.Compute = vary("compute")
		k.Overhead = rapid.SampledFrom([]Overhead{{}, {0.012, 0.003, 2}}).Draw(t, "overhead")
		if rapid.Bool().Draw(t, "links") {
			k.Links = links
		} else {
			k.DownloadMbps, k.UploadMbps = speed("download"), speed("upload")
			k.Vary.Download, k.Vary.Upload = vary("download"), vary("upload")
		}
		c.Fleet = append(c.Fleet, k)
	}
	if rapid.Bool().Draw(t, "slowdown") {
		c.Slowdown = SlowPeriods{EverySeconds: 100, ForSeconds: 10, Factor: Pareto{Min: 1, Shape: 2}, Links: rapid.Bool().Draw(t, "slow links")}
	}
	c.Dropout = Dropout{Probability: rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "dropout"), WhenUnavailable: rapid.Bool().Draw(t, "absence")}
	f, err := NewFleet(c, rapid.Uint64().Draw(t, "seed"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Whatever the population: nothing is negative, a key gives one plan, a client
// leaves within its work and in the phase that runs then, work of no steps or
// bits takes no time.
func TestClass_PlansOfAnyFleet(t *testing.T) {
	links, recorded := made(t, 30), stays(t)
	rapid.Check(t, func(t *rapid.T) {
		f := anyFleet(t, links, recorded)
		client, task := rapid.IntRange(0, min(1<<40, math.MaxInt)).Draw(t, "client"), rapid.Uint64().Draw(t, "task")
		steps, bits := rapid.IntRange(0, 200).Draw(t, "steps"), rapid.Int64Range(0, 40_000_000).Draw(t, "bits")
		at := rapid.OneOf(rapid.Int64Range(0, 10*day), rapid.Int64Range(0, maxTime)).Draw(t, "at")
		p, err := f.Plan(f.Client(client), task, steps, SameBits(bits), at)
		if err != nil {
			t.Fatal(err)
		}
		if p.Download < 0 || p.Compute < 0 || p.Upload < 0 || p.After < 0 {
			t.Fatalf("%+v", p)
		}
		if bits == 0 && p.Download+p.Upload > 0 || steps == 0 && p.Compute > 0 {
			t.Fatalf("%d steps and %d bits: %+v", steps, bits, p)
		}
		if again, err := f.Plan(f.Client(client), task, steps, SameBits(bits), at); err != nil || again != p {
			t.Fatalf("%+v, then %+v, %v", p, again, err)
		}
		if p.Dropout == NoPhase && p.After != 0 || p.Dropout != NoPhase && (p.After >= p.Total() || p.Phase(p.After) != p.Dropout) {
			t.Fatalf("leaves in %v: %+v", p.Dropout, p)
		}
		if d, err := f.Durations(client, task, steps, SameBits(bits), at); err != nil || d != p.Durations {
			t.Fatalf("durations %+v, %v; the plan has %+v", d, err, p)
		}
		more, err := f.Durations(client, task, steps, SameBits(bits+1000), at)
		if err != nil || more.Download < p.Download {
			t.Fatalf("%d bits take %d ns, 1000 more %d, %v", bits, p.Download, more.Download, err)
		}
	})
}

func TestClass_PlansDoNotAllocate(t *testing.T) {
	c := lognormalClasses()
	c.Slowdown = SlowPeriods{EverySeconds: 100, ForSeconds: 10, Factor: Pareto{Min: 1, Shape: 2}, Links: true}
	c.Dropout = Dropout{Probability: 0.5, WhenUnavailable: true}
	c.Fleet = append(c.Fleet, Class{Name: "car", Weight: 1, Links: made(t, 30)})
	for _, a := range append(models3(), Trace{Sessions: stays(t), Spread: true}) {
		c.Availability = a
		f, err := NewFleet(c, 1)
		if err != nil {
			t.Fatal(err)
		}
		client := 0
		if n := testing.AllocsPerRun(500, func() {
			client++
			if _, err := f.Plan(f.Client(client), 3, 80, SameBits(6_710_000), int64(client)*second); err != nil {
				t.Fatal(err)
			}
			f.NextChange(client, 5)
			f.NextAny(10, int64(client))
		}); n != 0 {
			t.Errorf("%s: %g allocations", a, n)
		}
	}
}

// What a seed means: a change here changes every recorded run.
func TestClass_PlansGolden(t *testing.T) {
	c := lognormalClasses()
	c.Slowdown = SlowPeriods{EverySeconds: 100, ForSeconds: 10, Factor: Pareto{Min: 1, Shape: 2}, Links: true}
	c.Dropout = Dropout{Probability: 0.2}
	for _, l := range laws() {
		d := bounded01(l.dist)
		c.Fleet = append(c.Fleet, Class{Weight: 1, SecondsPerStep: d, StepCV: 0.1, DownloadMbps: d, Vary: Vary{Compute: d}, UploadMbps: Constant{Value: 2}})
	}
	c.Fleet = append(c.Fleet, Class{Weight: 2, SecondsPerStep: Constant{Value: 0.1}, Links: made(t, 30)})
	f, err := NewFleet(c, 77)
	if err != nil {
		t.Fatal(err)
	}
	sum := uint64(0)
	for i := range 20_000 {
		p, err := f.Plan(f.Client(i), uint64(i*7), i%100, SameBits(int64(i)*1000), int64(i)*second)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []int64{p.Download, p.Compute, p.Upload, int64(p.Dropout), p.After} {
			sum = sum*31 + uint64(v)
		}
	}
	if want := uint64(0x8b0028e281650442); sum != want {
		t.Errorf("plans sum to %#x, want %#x", sum, want)
	}
}

// bounded01 returns the distribution d with at_least set to 0.1.
func bounded01(d Distribution) Distribution {
	b := Bounds{AtLeast: 0.1}
	switch d := d.(type) {
	case Uniform:
		d.Bounds = b
		return d
	case Normal:
		d.Bounds = b
		return d
	case Lognormal:
		d.Bounds = b
		return d
	case ShiftedExponential:
		d.Bounds = b
		return d
	case Pareto:
		d.Bounds = b
		return d
	case Weibull:
		d.Bounds = b
		return d
	case Empirical:
		d.Bounds = b
		return d
	}
	panic("a distribution without bounds")
}

func TestClass_BadClasses(t *testing.T) {
	links := made(t, 10)
	normal := Normal{Mean: 20, Std: 5}
	for _, c := range []struct {
		name   string
		config Config
		want   string
	}{
		{"a bad distribution", Config{Fleet: []Class{{Name: "ok"}, {Name: "phone", DownloadMbps: Lognormal{Mean: 2, Sigma: -1}}}}, "fleet[1].download_mbps.sigma: -1 is out of range (from 0 to 10)"},
		{"a speed that reaches zero", Config{Fleet: []Class{{Name: "a", UploadMbps: normal}}}, "fleet[0].upload_mbps: normal(mean 20, std 5) can come down to 0, and a transfer would never end (set at_least above 0)"},
		{"nothing that is together", Config{Fleet: []Class{{Name: "a", Vary: Vary{Together: true}}}}, "fleet[0].vary.together: true, and nothing varies"},
		{"a factor that reaches zero", Config{Fleet: []Class{{Name: "a", Vary: Vary{Download: normal}}}}, "fleet[0].vary.download: normal(mean 20, std 5) can come down to 0"},
		{"links and speeds", Config{Fleet: []Class{{Name: "a", Links: links, DownloadMbps: Constant{Value: 3}}}}, "fleet[0].download_mbps: 3, and links are given, too"},
		{"a negative weight", Config{Fleet: []Class{{Weight: -1}}}, "fleet[0].weight: -1"},
		{"no weight among others", Config{Fleet: []Class{{Weight: 1}, {}}}, "fleet[1].weight: is not set"},
		{"a coefficient of variation", Config{Fleet: []Class{{StepCV: -2}}}, "fleet[0].step_cv: -2"},
		{"a step of ages", Config{Fleet: []Class{{SecondsPerStep: Constant{Value: 1e9}}}}, "fleet[0].seconds_per_step: 1e+09 is more than three years"},
		{"too many classes", Config{Fleet: make([]Class, maxClasses+1)}, "fleet: 1001 classes (at most 1000)"},
		{"a slowdown without a factor", Config{Slowdown: SlowPeriods{EverySeconds: 10, ForSeconds: 1}}, "slowdown.factor: is not set"},
		{"a slowdown that speeds up", Config{Slowdown: SlowPeriods{EverySeconds: 10, ForSeconds: 1, Factor: Constant{Value: 0.5}}}, "slowdown.factor: 0.5 comes down to 0.5 (at least 1"},
		{"a slowdown longer than its cycle", Config{Slowdown: SlowPeriods{EverySeconds: 10, ForSeconds: 10, Factor: Constant{Value: 2}}}, "slowdown.for_seconds: 10 is out of range (from 0.001 to 9.999"},
		{"a slowdown that never comes", Config{Slowdown: SlowPeriods{ForSeconds: 10, Factor: Constant{Value: 2}}}, "slowdown.every_seconds: is not set"},
		{"a slowdown of links alone", Config{Slowdown: SlowPeriods{Links: true}}, "slowdown.every_seconds: is not set"},
		{"a probability", Config{Dropout: Dropout{Probability: 1.5}}, "dropout.probability: 1.5 is out of range (from 0 to 1)"},
		{"a class's own dropout", Config{Fleet: []Class{{Name: "b", Dropout: &Dropout{Probability: -1}}}}, "fleet[0].dropout.probability: -1"},
		{"a class's own availability", Config{Fleet: []Class{{Name: "b", Availability: Daily{Probability: 1}}}}, "fleet[0].availability.jitter_hours: 0 with 24 hours"},
		{"two classes of one name", Config{Fleet: []Class{{Name: "b"}, {Name: "b"}}}, `fleet[1].name: "b" is the name of two classes`},
		{"a measured device without a file", Config{Compute: Compute{Reference: "a"}}, "compute.reference: measured and reference are set together"},
		{"measured devices with a spread", Config{Compute: Compute{Measured: "m.csv", Reference: "a", SecondsPerStep: 1, Std: 1}}, "compute.measured: needs"},
		{"a file that is not there", Config{Network: Network{Links: Links{File: "nowhere.csv"}}}, "network.links: open nowhere.csv"},
	} {
		c.config.Network.DownloadMbps, c.config.Network.UploadMbps = 20, 5
		if _, err := NewFleet(c.config, 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}

func TestClass_BadTasks(t *testing.T) {
	f, err := NewFleet(Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Compute: Compute{SecondsPerStep: 1}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		steps    int
		bits, at int64
		want     string
	}{
		{-1, 1, 0, "-1 steps and 1 bits, want neither negative"},
		{1, -1, 0, "1 steps and -1 bits, want neither negative"},
		{1, 1, -1, "starts at -1 ns"},
		{1, 1, maxTime + 1, "want 0 to"},
		{200_000_000, 1, 0, "take over 1e+08 s"},
	} {
		if _, err := f.Plan(f.Client(3), 4, c.steps, SameBits(c.bits), c.at); err == nil || !strings.Contains(err.Error(), "task 4 of client 3") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v", c, err)
		}
	}
}
