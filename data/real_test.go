package data

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"fedpace/data/datatest"
	"fedpace/data/federated"
	"fedpace/internal/testkit/realdata"
	"fedpace/internal/testkit/slow"
	"fedpace/learn"
)

func openReal(t testing.TB, name string, opt federated.Options) federated.Set {
	t.Helper()
	path := realdata.Path(t, name)
	start := time.Now()
	s, err := Open(path, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s opened in %v; %s", name, time.Since(start).Round(time.Millisecond), peak())
	t.Cleanup(func() { s.Close() })
	return s
}

// peak is the most memory that this process has held.
func peak() string {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return "peak memory unknown on " + runtime.GOOS
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if kb, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			return "peak memory " + strings.TrimSpace(kb)
		}
	}
	return "peak memory unknown"
}

func trainingSamples(s federated.Set) int {
	n := 0
	for c := range s.Clients() {
		n += s.Samples(c)
	}
	return n
}

func checkSome(t *testing.T, s federated.Set) {
	t.Helper()
	for _, c := range []int{0, s.Clients() / 2, s.Clients() - 1} {
		datatest.CheckBatch(t, s.Info(), datatest.All(t, s, c), s.Samples(c))
	}
	n := min(1000, s.HeldOut())
	datatest.CheckBatch(t, s.Info(), datatest.HeldOut(t, s, s.HeldOut()-n, n), n)
}

// The paper's 3,000 writers (paper/NOTES, "Data").
func TestRealFEMNIST_Parquet(t *testing.T) {
	slow.NotUnderRace(t)
	s := openReal(t, "femnist/femnist.parquet", federated.Options{Task: "femnist", Seed: 1})
	if s.Clients() != 3000 || trainingSamples(s) != 509_654 || s.HeldOut() != 128_908 {
		t.Errorf("%d writers, %d training and %d validation images, want 3000, 509654, 128908", s.Clients(), trainingSamples(s), s.HeldOut())
	}
	checkSome(t, s)
	if s.Client(0) != "f0000_14" {
		t.Errorf("first writer %s", s.Client(0))
	}
	var q []string
	for _, n := range quantiles(s) {
		q = append(q, fmt.Sprint(n))
	}
	t.Logf("training samples per client at each twentieth: %s", strings.Join(q, ", "))
}

func quantiles(s federated.Set) []int {
	var n []int
	for c := range s.Clients() {
		n = append(n, s.Samples(c))
	}
	slices.Sort(n)
	var q []int
	for i := range 21 {
		q = append(q, n[i*(len(n)-1)/20])
	}
	return q
}

func TestRealSent140(t *testing.T) {
	slow.NotUnderRace(t)
	for _, c := range []struct{ min, users int }{{3, 9314}, {10, 453}} {
		s := openReal(t, "sent140/tweets_with_users.csv.gz", federated.Options{Task: "sent140", MinTweets: c.min})
		if s.Clients() != c.users {
			t.Errorf("%d users with at least %d tweets, want %d", s.Clients(), c.min, c.users)
		}
		t.Logf("%s: %d + %d, %v %v", s.Info().Note, trainingSamples(s), s.HeldOut(), quantiles(s), s.Info().Digest)
		checkSome(t, s)
	}
}

// Two shards of LEAF's own tool hold writers of the Parquet file, whose images
// are the same bytes.
func TestRealFEMNIST_LEAF(t *testing.T) {
	slow.Test(t, "it reads FEMNIST as text; its Parquet file is read always")
	slow.NotUnderRace(t)
	s := openReal(t, "femnist/leaf", federated.Options{Task: "femnist"})
	if s.Clients() != 10 {
		t.Errorf("%d writers, want 10", s.Clients())
	}
	if s.Client(0) != "f3313_11" || s.Samples(0) != 155 || s.Client(5) != "f1906_16" {
		t.Errorf("first writers %s with %d images, %s", s.Client(0), s.Samples(0), s.Client(5))
	}
	t.Logf("%d + %d", trainingSamples(s), s.HeldOut())
	checkSome(t, s)

	pooled := func(s federated.Set, c int) map[string]int {
		m := make(map[string]int)
		b := datatest.All(t, s, c)
		for i := range b.N {
			key := []byte{byte(b.Labels[i])}
			for _, x := range b.X[i*federated.FEMNISTPixels : (i+1)*federated.FEMNISTPixels] {
				key = append(key, byte(255*x+0.5))
			}
			m[string(key)]++
		}
		return m
	}
	p := openReal(t, "femnist/femnist.parquet", federated.Options{})
	shared := 0
	for c := range p.Clients() {
		for l := range s.Clients() {
			if p.Client(c) != s.Client(l) {
				continue
			}
			same, leaf := 0, pooled(s, l)
			for key := range pooled(p, c) {
				if leaf[key] > 0 {
					same++
				}
			}
			// 0.8 of one split meets 0.9 of another.
			if same < len(leaf)/2 {
				t.Errorf("writer %s: %d of %d images are in both", s.Client(l), same, len(leaf))
			}
			shared++
		}
	}
	if shared == 0 {
		t.Error("no writer is in both")
	}
}

func TestRealTweets_WithoutUsers(t *testing.T) {
	slow.Test(t, "it reads 1.6 million tweets")
	slow.NotUnderRace(t)
	s := openReal(t, "sent140/tweets_without_users.tsv.gz", federated.Options{Task: "sent140"})
	if s.Clients() != 21_876 || !s.Info().Synthetic {
		t.Errorf("%d clients, synthetic %v", s.Clients(), s.Info().Synthetic)
	}
	if n := trainingSamples(s) + s.HeldOut(); n > 480_000 || n < 470_000 {
		t.Errorf("%d tweets of 480000", n)
	}
	checkSome(t, s)
	t.Log(s.Info().Note)
}

// LEAF's preparation gives 1,129 roles with 4,226,158 windows; its split in
// sequence gives the paper's 660 clients to the digit (paper/NOTES, "Data").
func TestRealShakespeare(t *testing.T) {
	slow.NotUnderRace(t)
	path := realdata.Path(t, "shakespeare/1994-01-100.zip")
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	stat, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	plays, err := worksText(f, stat.Size())
	if err != nil {
		t.Fatal(err)
	}
	roles, total := 0, 0
	for _, r := range speakingRoles(plays) {
		if n := len(r.Text) - federated.ShakespeareWindow; n > 0 {
			roles++
			total += n
		}
	}
	if roles != 1129 || total != 4_226_158 {
		t.Errorf("%d roles with %d windows, want 1129 with 4226158", roles, total)
	}
	s := openReal(t, "shakespeare/1994-01-100.zip", federated.Options{Task: "shakespeare"})
	if s.Clients() != 660 || trainingSamples(s) != 3_678_451 || s.HeldOut() != 356_921 {
		t.Errorf("%d clients, %d training and %d validation windows, want 660, 3678451, 356921", s.Clients(), trainingSamples(s), s.HeldOut())
	}
	checkSome(t, s)
	// Batches in any cut give the same held-out windows.
	whole := datatest.HeldOut(t, s, 0, 5000)
	var parts learn.Batch
	for from := 0; from < 5000; from += 77 {
		if err := s.HeldOutBatch(&parts, from, min(77, 5000-from)); err != nil {
			t.Fatal(err)
		}
	}
	if !datatest.Same(whole, &parts) {
		t.Error("held-out windows depend on the batch")
	}
	t.Logf("%s, first %s: %s", s.Info().Note, s.Client(0), sentence(datatest.All(t, s, 0).Tokens[:federated.ShakespeareWindow]))
}

func sentence(tokens []uint8) string {
	b := make([]byte, len(tokens))
	for i, token := range tokens {
		b[i] = federated.ShakespeareCharacters[token]
	}
	return string(b)
}

// The part of CIFAR-100 that is here has 100 training and 20 test images of
// each class: 100 clients of 100 by Pachinko allocation.
func TestRealCIFAR100(t *testing.T) {
	slow.NotUnderRace(t)
	s := openReal(t, "cifar100", federated.Options{Task: "cifar100", Seed: 1})
	if s.Clients() != 100 || trainingSamples(s) != 10_000 || s.HeldOut() != 2000 {
		t.Errorf("%d clients, %d training, %d held out; want 100, 10000, 2000", s.Clients(), trainingSamples(s), s.HeldOut())
	}
	for c := range 100 {
		if s.Samples(c) != 100 {
			t.Errorf("client %d has %d images, want 100", c, s.Samples(c))
		}
	}
	checkSome(t, s)
	t.Log(s.Info().Note)
}
