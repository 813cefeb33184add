package synthetic

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"fedpace/data/datatest"
	"fedpace/data/federated"
	"fedpace/learn"
)

func newSynthetic(t testing.TB, task string, clients int, seed uint64, h float64) federated.Set {
	t.Helper()
	s, err := New(task, clients, seed, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// The paper's clients and mean samples per client (paper/NOTES, "Data").
func TestSynthetic_Counts(t *testing.T) {
	for _, c := range []struct {
		task    string
		clients int
		mean    float64
	}{{"femnist", 3000, 169.9}, {"sent140", 21_876, 15.36}, {"cifar100", 500, 100}, {"shakespeare", 660, 5573.41}} {
		s := newSynthetic(t, c.task, 0, 1, 1)
		if s.Clients() != c.clients {
			t.Errorf("%s: %d clients, the paper has %d", c.task, s.Clients(), c.clients)
		}
		sum := 0
		for i := range s.Clients() {
			sum += s.Samples(i)
		}
		if mean := float64(sum) / float64(s.Clients()); math.Abs(mean/c.mean-1) > 0.05 {
			t.Errorf("%s: %.2f samples per client, the paper has %.2f", c.task, mean, c.mean)
		}
	}
}

func TestSynthetic_Batches(t *testing.T) {
	for _, task := range Tasks() {
		for _, h := range []float64{0, 1, 100} {
			s := newSynthetic(t, task, 300, 1, h)
			for _, c := range []int{0, 1, 299} {
				datatest.CheckBatch(t, s.Info(), datatest.All(t, s, c), s.Samples(c))
			}
			datatest.CheckBatch(t, s.Info(), datatest.HeldOut(t, s, 0, s.HeldOut()), s.HeldOut())
		}
	}
}

// Neither the order of asking nor who asks changes a bit.
func TestSynthetic_FunctionOfArguments(t *testing.T) {
	for _, task := range Tasks() {
		t.Run(task, func(t *testing.T) {
			a, b := newSynthetic(t, task, 50, 1, 1), newSynthetic(t, task, 50, 1, 1)
			if b, ok := b.(*synthetic); ok {
				b.cache.limit = 1 // keeps one client only
			}
			other := newSynthetic(t, task, 50, 2, 1)
			if a.Info().Digest != b.Info().Digest || a.Info().Digest == other.Info().Digest {
				t.Error("digests do not tell the seed, or something else")
			}
			want := make([]*learn.Batch, 50)
			for c := range want {
				want[c] = datatest.All(t, a, c)
			}
			var workers sync.WaitGroup
			for w := range 4 {
				workers.Go(func() {
					for i := range 50 {
						c := (i*7 + w*13) % 50
						if !datatest.Same(want[c], datatest.All(t, b, c)) {
							t.Errorf("client %d differs", c)
						}
					}
				})
			}
			workers.Wait()
			if datatest.Same(want[3], datatest.All(t, other, 3)) {
				t.Error("two seeds make the same client")
			}
			if a.Info().Classes > 1 && slices.Equal(want[3].Labels, want[4].Labels) {
				t.Error("two clients have the same labels")
			}
			if !datatest.Same(datatest.HeldOut(t, a, 5, 3), datatest.HeldOut(t, b, 5, 3)) {
				t.Error("held-out samples differ")
			}
		})
	}
}

// The bits of a seed are kept from version to version and machine to machine.
func TestSynthetic_Golden(t *testing.T) {
	for task, want := range map[string]string{
		"femnist": "15551475fa812e3b",
		"sent140": "60bff856ad5b31ba",
	} {
		s := newSynthetic(t, task, 10, 1, 1)
		h := sha256.New()
		for i, b := range []*learn.Batch{datatest.All(t, s, 2), datatest.HeldOut(t, s, 0, 10)} {
			fmt.Fprint(h, []string{"{", " {"}[i])
			fmt.Fprint(h, b.N, " ", b.Labels, " ", b.X, " ", b.RowStart, " ", b.Index, " ", b.Value, " ", b.Tokens, "}")
		}
		fmt.Fprintln(h)
		if got := fmt.Sprintf("%x", h.Sum(nil)[:8]); got != want {
			t.Errorf("%s: %s, want %s", task, got, want)
		}
	}
}

// Label skew grows with heterogeneity: the expected share of a client's most
// frequent label, and none at 0.
func TestSynthetic_LabelSkew(t *testing.T) {
	top := func(h float64) float64 {
		s := newSynthetic(t, "femnist", 200, 1, h).(*synthetic)
		var sum float64
		for c := range 200 {
			var count [62]int
			e := s.open(c)
			for _, l := range e.labels {
				count[l]++
			}
			sum += float64(slices.Max(count[:])) / float64(len(e.labels))
		}
		return sum / 200
	}
	none, one, ten, most := top(0), top(1), top(10), top(1e9)
	if !(none < 0.06 && none < one && one < ten && ten < most && most > 0.999) {
		t.Errorf("share of the most frequent label at heterogeneity 0, 1, 10, 1e9: %.3f %.3f %.3f %.3f", none, one, ten, most)
	}
}

// A million clients cost nothing until they are asked for.
func TestSynthetic_MillionClients(t *testing.T) {
	if n := testing.AllocsPerRun(3, func() {
		s, err := New("sent140", 1_000_000, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		for c := 0; c < 1_000_000; c += 10 {
			if s.Samples(c) < 1 {
				t.Fatalf("client %d has no samples", c)
			}
		}
	}); n > 50 {
		t.Errorf("%v allocations", n)
	}
}

func TestSynthetic_Errors(t *testing.T) {
	want := `data: no synthetic set for task "femnit", want one of cifar100, femnist, logistic, quadratic, sent140, shakespeare`
	if _, err := New("femnit", 10, 1, 1); err == nil || err.Error() != want {
		t.Errorf("error %v, want %v", err, want)
	}
	s := newSynthetic(t, "sent140", 2, 1, 1)
	var b learn.Batch
	for _, err := range []error{
		s.Batch(&b, 2, []int32{0}),
		s.Batch(&b, -1, []int32{0}),
		s.Batch(&b, 0, []int32{1000}),
		s.Batch(&b, 0, []int32{-1}),
		s.HeldOutBatch(&b, 0, s.HeldOut()+1),
		s.HeldOutBatch(&b, -1, 1),
	} {
		if err == nil {
			t.Error("no error for what is outside the set")
		}
	}
}

func BenchmarkSynthetic(b *testing.B) {
	for task := range recipes {
		s := newSynthetic(b, task, 1000, 1, 1).(*synthetic)
		if s.make == nil {
			continue // a text
		}
		b.Run(task+"/sample", func(b *testing.B) {
			record := make([]byte, s.recordBytes)
			for i := 0; b.Loop(); i++ {
				s.make(record, habits{128, 1}, i%s.info.Classes, uint64(i))
			}
		})
		b.Run(task+"/client", func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				s.open(i % 1000)
			}
		})
		b.Run(task+"/batch", func(b *testing.B) {
			var batch learn.Batch
			samples := []int32{0, 1, 2, 3, 4, 5, 6, 7}
			for b.Loop() {
				batch.Reset()
				if err := s.Batch(&batch, 7, samples); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
