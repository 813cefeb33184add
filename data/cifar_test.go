package data

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/data/datatest"
	"fedpace/data/federated"
	"fedpace/internal/testkit/slow"
)

// cifarFile makes n images; image i has fine label i mod 100 and pixels that
// tell colour and place.
func cifarFile(n int) []byte {
	b := make([]byte, n*federated.CIFARRecord)
	for i := range n {
		r := b[i*federated.CIFARRecord:]
		r[0], r[1] = byte(i%100/5), byte(i%100)
		for p := range federated.CIFARPixels {
			r[2+p] = byte(1 + p%251)
		}
	}
	return b
}

func archiveOf(t testing.TB, train, test []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	a := tar.NewWriter(z)
	for name, content := range map[string][]byte{"cifar-100-binary/train.bin": train, "cifar-100-binary/test.bin": test} {
		if err := a.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), Format: tar.FormatUSTAR}); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestCIFAR_Open(t *testing.T) {
	slow.NotUnderRace(t)
	dir := t.TempDir()
	datatest.Put(t, dir, "train.bin", cifarFile(500))
	datatest.Put(t, dir, "test.bin", cifarFile(100))
	datatest.Put(t, dir, "cifar-100-binary.tar.gz", archiveOf(t, cifarFile(500), cifarFile(100)))
	var digests []string
	for _, path := range []string{dir, filepath.Join(dir, "train.bin"), filepath.Join(dir, "cifar-100-binary.tar.gz")} {
		s := mustOpen(t, path, federated.Options{Task: "cifar100"})
		if s.Clients() != 5 || s.Samples(0) != 100 || s.HeldOut() != 100 {
			t.Fatalf("%s: %d clients of %d, %d held out", path, s.Clients(), s.Samples(0), s.HeldOut())
		}
		datatest.CheckBatch(t, s.Info(), datatest.All(t, s, 3), 100)
		digests = append(digests, s.Info().Digest)
		// Held-out images are as stored, normalised per colour.
		b := datatest.HeldOut(t, s, 7, 1)
		if want := (2.0/255 - .4914) / .2023; b.Labels[0] != 7 || math.Abs(float64(b.X[1])-want) > 1e-6 {
			t.Errorf("label %d, second pixel %v, want %v", b.Labels[0], b.X[1], want)
		}
		if !s.Info().Synthetic || !strings.Contains(s.Info().Note, "Pachinko allocation, Dirichlet(0.1) over coarse and Dirichlet(10) over fine labels, 5 clients of 100 to 100 samples") {
			t.Errorf("%+v", s.Info())
		}
	}
	if digests[0] != digests[1] || digests[0] != digests[2] {
		t.Error("folder, file and archive differ in their digests")
	}
}

func TestCIFAR_Errors(t *testing.T) {
	bad := cifarFile(100)
	bad[5*federated.CIFARRecord+1] = 100
	twice := cifarFile(200)
	twice[100*federated.CIFARRecord] = 7
	for _, c := range []struct {
		train, test []byte
		opt         federated.Options
		want        string
	}{
		{cifarFile(3)[:5000], cifarFile(1), federated.Options{}, "train.bin: 5000 bytes are no whole number of images of 3074 bytes: truncated"},
		{bad, cifarFile(1), federated.Options{}, "train.bin: image 5: labels 1 and 100 are outside the 20 coarse and 100 fine classes"},
		{twice, cifarFile(1), federated.Options{}, "fine label 0 is below coarse labels 0 and 7"},
		{cifarFile(1), nil, federated.Options{}, "test.bin: 0 bytes are no whole number"},
		{cifarFile(1), cifarFile(1), federated.Options{Partition: federated.Partition{Kind: "natural"}}, "CIFAR-100 has no clients of its own; want partition pachinko"},
	} {
		dir := t.TempDir()
		datatest.Put(t, dir, "train.bin", c.train)
		datatest.Put(t, dir, "test.bin", c.test)
		if _, err := Open(dir, c.opt); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error\n%v\nwant\n%v", err, c.want)
		}
	}
	dir := t.TempDir()
	datatest.Put(t, dir, "train.bin", cifarFile(1))
	if _, err := Open(dir, federated.Options{}); err == nil || !strings.Contains(err.Error(), "want train.bin and test.bin") {
		t.Error(err)
	}
	archive := archiveOf(t, cifarFile(30), cifarFile(10))
	if _, err := Open(datatest.Put(t, dir, "a.tar.gz", archive[:len(archive)-30]), federated.Options{}); err == nil || !strings.Contains(err.Error(), "truncated or damaged") {
		t.Error(err)
	}
}

func FuzzCIFAR(f *testing.F) {
	f.Add(archiveOf(f, cifarFile(2), cifarFile(1)))
	f.Add(cifarFile(3))
	f.Fuzz(func(t *testing.T, content []byte) {
		datatest.Guard(t, len(content), func() {
			if s, err := readCIFARArchive(bytes.NewReader(content), federated.Options{}); err == nil {
				datatest.Usable(t, s)
			}
			if b, err := readCIFAR(bytes.NewReader(content)); err == nil {
				if s, err := newCIFAR([2][]byte{b, b}, federated.Options{}); err == nil {
					datatest.Usable(t, s)
				}
			}
		})
	})
}
