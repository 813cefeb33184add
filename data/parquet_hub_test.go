package data

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fedpace/data/datatest"
	"fedpace/data/federated"
	"fedpace/data/table"
)

type hubPicture struct {
	Img struct {
		Bytes []byte `parquet:"bytes"`
		Path  string `parquet:"path"`
	} `parquet:"img"`
	Fine   int64 `parquet:"fine_label"`
	Coarse int64 `parquet:"coarse_label"`
}

// hubPictures makes n pictures of CIFAR-100's shape whose colours are 1, 2, 3.
func hubPictures(t testing.TB, n int) (rows []hubPicture) {
	m := image.NewRGBA(image.Rect(0, 0, federated.CIFARSide, federated.CIFARSide))
	for i := range federated.CIFARPlane {
		m.Set(i%federated.CIFARSide, i/federated.CIFARSide, color.RGBA{1, 2, 3, 255})
	}
	var encoded bytes.Buffer
	if err := png.Encode(&encoded, m); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		r := hubPicture{Fine: int64(i % 100), Coarse: int64(i % 100 / 5)}
		r.Img.Bytes = encoded.Bytes()
		rows = append(rows, r)
	}
	return rows
}

func TestOpen_CIFARParquet(t *testing.T) {
	dir := t.TempDir()
	datatest.Put(t, dir, "data/train-00000-of-00002.parquet", datatest.Parquet(t, hubPictures(t, 150)))
	datatest.Put(t, dir, "data/train-00001-of-00002.parquet", datatest.Parquet(t, hubPictures(t, 50)))
	datatest.Put(t, dir, "data/test-00000-of-00001.parquet", datatest.Parquet(t, hubPictures(t, 20)))
	s := mustOpen(t, dir, federated.Options{Task: "cifar100"})
	if s.Clients() != 2 || s.Samples(0) != 100 || s.HeldOut() != 20 {
		t.Errorf("%d clients of %d, %d held out", s.Clients(), s.Samples(0), s.HeldOut())
	}
	b := datatest.HeldOut(t, s, 3, 1)
	datatest.CheckBatch(t, s.Info(), b, 1)
	colour := func(b, mean, std float64) float32 { return float32((b/255 - mean) / std) }
	if b.Labels[0] != 3 || b.X[0] != colour(1, .4914, .2023) || b.X[federated.CIFARPlane] != colour(2, .4822, .1994) || b.X[2*federated.CIFARPlane] != colour(3, .4465, .2010) {
		t.Errorf("label %d, colours %v %v %v", b.Labels[0], b.X[0], b.X[federated.CIFARPlane], b.X[2*federated.CIFARPlane])
	}
	alone := filepath.Join(dir, "data", "train-00000-of-00002.parquet")
	if _, err := Open(alone, federated.Options{}); err == nil || !strings.Contains(err.Error(), "no test file beside the training file") {
		t.Error(err)
	}
}

// Shards of a folder are one set; a writer may be in two of them.
// A training file that is called a test file is held out, though no byte has changed: the data are others.
func TestOpen_CIFARParquetParts(t *testing.T) {
	dir := t.TempDir()
	for name, pictures := range map[string]int{"a-train.parquet": 150, "b-train.parquet": 50, "c-test.parquet": 20} {
		datatest.Put(t, dir, name, datatest.Parquet(t, hubPictures(t, pictures)))
	}
	before := mustOpen(t, dir, federated.Options{})
	if err := os.Rename(filepath.Join(dir, "b-train.parquet"), filepath.Join(dir, "b-test.parquet")); err != nil {
		t.Fatal(err)
	}
	after := mustOpen(t, dir, federated.Options{})
	if before.HeldOut() != 20 || after.HeldOut() != 70 {
		t.Errorf("%d and %d samples are held out, want 20 and 70", before.HeldOut(), after.HeldOut())
	}
	if before.Info().Digest == after.Info().Digest {
		t.Error("both splits have one digest")
	}
}

func TestOpen_ParquetFolder(t *testing.T) {
	dir := t.TempDir()
	datatest.Put(t, dir, "b.parquet", datatest.Parquet(t, datatest.RawImages([]string{"y", "z"}, 5)))
	datatest.Put(t, dir, "a.parquet", datatest.Parquet(t, datatest.RawImages([]string{"x", "y"}, 5)))
	s := mustOpen(t, dir, federated.Options{})
	if s.Clients() != 3 || s.Client(0) != "x" || s.Client(1) != "y" || s.Samples(1) != 8 {
		t.Errorf("%d clients, %s and %s, the second with %d", s.Clients(), s.Client(0), s.Client(1), s.Samples(1))
	}
	bad := datatest.RawImages([]string{"x"}, 2)
	bad[1].Character = -1
	datatest.Put(t, dir, "c.parquet", datatest.Parquet(t, bad))
	if _, err := Open(dir, federated.Options{}); err == nil || !strings.Contains(err.Error(), "c.parquet: column character, row group 0, value 1: label -1 is outside") {
		t.Error(err)
	}
	datatest.Put(t, dir, "test.parquet", datatest.Parquet(t, datatest.RawImages([]string{"x"}, 2)))
	if _, err := Open(dir, federated.Options{}); err == nil || !strings.Contains(err.Error(), "found test files beside the training files") {
		t.Error(err)
	}
	own := t.TempDir()
	for _, name := range []string{"train.parquet", "test.parquet"} {
		datatest.Put(t, own, name, datatest.Parquet(t, []struct{ A, B int32 }{{1, 2}}))
	}
	if _, err := Open(own, federated.Options{}); !errors.Is(err, table.ErrUnmapped) {
		t.Errorf("a folder with a test file, without a mapping: %v", err)
	}
	datatest.Put(t, dir, "a.parquet", []byte("PAR1"))
	if _, err := Open(dir, federated.Options{}); err == nil || !strings.Contains(err.Error(), "a.parquet: 4 bytes are no Parquet file") {
		t.Error(err)
	}
}

func TestOpen_ShakespeareParquet(t *testing.T) {
	type line struct {
		Character string `parquet:"character_id"`
		X         string `parquet:"x"`
		Y         string `parquet:"y"`
	}
	text := strings.Repeat(federated.ShakespeareCharacters, 20)
	var rows []line
	for i := range 1000 {
		rows = append(rows, line{"HAMLET", text[i : i+federated.ShakespeareWindow], text[i+federated.ShakespeareWindow : i+federated.ShakespeareWindow+1]})
	}
	for i := range 100 { // 90 train, nothing is left after the gap
		rows = append(rows, line{"GHOST", text[i : i+federated.ShakespeareWindow], text[i+federated.ShakespeareWindow : i+federated.ShakespeareWindow+1]})
	}
	path := datatest.Put(t, t.TempDir(), "s.parquet", datatest.Parquet(t, rows))
	s := mustOpen(t, path, federated.Options{Task: "shakespeare"})
	if s.Clients() != 1 || s.Samples(0) != 900 || s.HeldOut() != 21 || !strings.Contains(s.Info().Note, "1 clients with too few samples for two parts left out, with 100 samples") {
		t.Errorf("%d clients, %d training and %d held-out windows; %s", s.Clients(), s.Samples(0), s.HeldOut(), s.Info().Note)
	}
	b := datatest.HeldOut(t, s, 0, 1)
	datatest.CheckBatch(t, s.Info(), b, 1)
	if want := federated.ShakespeareIndex[text[979]]; b.Tokens[0] != want {
		t.Errorf("the first held-out window begins with %d, want %d", b.Tokens[0], want)
	}
	rows[5].Y = "é"
	if _, err := Open(datatest.Put(t, t.TempDir(), "s.parquet", datatest.Parquet(t, rows)), federated.Options{}); err == nil || !strings.Contains(err.Error(), "column y, row group 0, value 5: a string of 2 characters, want 1") {
		t.Error(err)
	}
}

// The same tweets give the same set from Parquet as from CSV.
func TestOpen_TweetsParquet(t *testing.T) {
	type tweetRow struct {
		Text      string `parquet:"text"`
		User      string `parquet:"user"`
		Sentiment int32  `parquet:"sentiment"`
	}
	var rows []tweetRow
	var lines []string
	words := []string{"good", "bad day", "so  so", "", "Good grief"}
	for i := range 30 {
		r := tweetRow{words[i%5] + " " + words[i%4], []string{"u", "v", "w"}[i%3], int32(i % 2 * 4)}
		if i%4 == 0 {
			r.User = " " + r.User + "\t" // the same user
		}
		rows = append(rows, r)
		lines = append(lines, tweet([]string{"0", "4"}[i%2], r.User, r.Text))
	}
	opt := federated.Options{Task: "sent140", MinTweets: 5}
	s := mustOpen(t, datatest.Put(t, t.TempDir(), "t.parquet", datatest.Parquet(t, rows)), opt)
	c := mustOpen(t, datatest.Put(t, t.TempDir(), "t.csv", csvOf(lines...)), opt)
	if s.Clients() != 3 || c.Clients() != 3 {
		t.Fatalf("%d and %d clients", s.Clients(), c.Clients())
	}
	for i := range 3 {
		if s.Client(i) != c.Client(i) || !datatest.Same(datatest.All(t, s, i), datatest.All(t, c, i)) {
			t.Errorf("client %d differs", i)
		}
	}
	rows[2].Sentiment = 2
	_, err := Open(datatest.Put(t, t.TempDir(), "t.parquet", datatest.Parquet(t, slices.Clone(rows))), opt)
	if err == nil || !strings.Contains(err.Error(), "column sentiment, row group 0, value 2: sentiment 2, want 0 or 4") {
		t.Error(err)
	}
}
