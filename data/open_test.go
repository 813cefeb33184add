package data

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fedpace/data/datatest"
	"fedpace/data/federated"
	"fedpace/learn"

	"github.com/parquet-go/parquet-go"
)

type pngImage struct {
	Image struct {
		Bytes []byte `parquet:"bytes"`
		Path  string `parquet:"path"`
	} `parquet:"image"`
	Writer    string `parquet:"writer_id"`
	Character int64  `parquet:"character"`
}

type ownRow struct {
	Client int64     `parquet:"client"`
	X      []float32 `parquet:"x,list"`
	Y      int32     `parquet:"y"`
}

func mustOpen(t testing.TB, path string, opt federated.Options) federated.Set {
	t.Helper()
	s, err := Open(path, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// Every sample is there once: its client keeps int(0.8 n), the rest is held
// out, and pixel values are 1 - byte/255.
func TestOpen_FEMNISTParquet(t *testing.T) {
	var pngs []pngImage
	for _, r := range datatest.RawImages([]string{"b", "a"}, 7) {
		var encoded bytes.Buffer
		if err := png.Encode(&encoded, &image.Gray{Pix: r.Image[:], Stride: federated.FEMNISTSide, Rect: image.Rect(0, 0, federated.FEMNISTSide, federated.FEMNISTSide)}); err != nil {
			t.Fatal(err)
		}
		p := pngImage{Writer: r.Writer, Character: int64(r.Character)}
		p.Image.Bytes = encoded.Bytes()
		pngs = append(pngs, p)
	}
	for name, file := range map[string][]byte{
		"raw":      datatest.Parquet(t, datatest.RawImages([]string{"b", "a"}, 7)),
		"groups":   datatest.Parquet(t, datatest.RawImages([]string{"b", "a"}, 7), parquet.MaxRowsPerRowGroup(3)),
		"snappy":   datatest.Parquet(t, datatest.RawImages([]string{"b", "a"}, 7), parquet.Compression(&parquet.Snappy)),
		"zstd":     datatest.Parquet(t, datatest.RawImages([]string{"b", "a"}, 7), parquet.Compression(&parquet.Zstd)),
		"png":      datatest.Parquet(t, pngs),
		"png gzip": datatest.Parquet(t, pngs, parquet.Compression(&parquet.Gzip)),
	} {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, datatest.Put(t, t.TempDir(), "set.parquet", file), federated.Options{Task: "femnist"})
			if s.Clients() != 2 || s.Client(0) != "b" || s.Client(1) != "a" {
				t.Fatalf("%d clients, first %q; want b, a", s.Clients(), s.Client(0))
			}
			if s.Samples(0) != 5 || s.Samples(1) != 5 || s.HeldOut() != 4 {
				t.Fatalf("%d and %d training, %d held out; want int(0.8*7) = 5 and 5, 4", s.Samples(0), s.Samples(1), s.HeldOut())
			}
			var seen []int32
			for c := range 2 {
				b := datatest.All(t, s, c)
				held := datatest.HeldOut(t, s, 2*c, 2)
				datatest.CheckBatch(t, s.Info(), b, 5)
				for i := range held.N {
					b.Labels = append(b.Labels, held.Labels[i])
					b.X = append(b.X, held.X[i*federated.FEMNISTPixels:(i+1)*federated.FEMNISTPixels]...)
				}
				for i, l := range b.Labels {
					seen = append(seen, l)
					if want := 1 - float32(l)/255; b.X[i*federated.FEMNISTPixels] != want && b.X[i*federated.FEMNISTPixels]-want > 1e-7 {
						t.Errorf("pixel %v of byte %d, want %v", b.X[i*federated.FEMNISTPixels], l, want)
					}
				}
			}
			slices.Sort(seen)
			if want := []int32{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6}; !slices.Equal(seen, want) {
				t.Errorf("samples %v, want each once: %v", seen, want)
			}
		})
	}
}

func TestOpen_OwnParquet(t *testing.T) {
	type fixed struct {
		Client string  `parquet:"client"`
		X      [3]byte `parquet:"x"`
		Y      int64   `parquet:"y"`
	}
	var lists []ownRow
	var bytes []fixed
	for i := range 10 {
		lists = append(lists, ownRow{Client: int64(i % 2), X: []float32{float32(i), -1, 0.5}, Y: int32(i % 4)})
		bytes = append(bytes, fixed{Client: fmt.Sprint(i % 2), X: [3]byte{byte(i), 255, 51}, Y: int64(i % 4)})
	}
	for _, c := range []struct {
		name string
		file []byte
		x    []float32 // the last two of a row
	}{
		{"list", datatest.Parquet(t, lists), []float32{-1, 0.5}},
		{"list in row groups", datatest.Parquet(t, lists, parquet.MaxRowsPerRowGroup(3)), []float32{-1, 0.5}},
		{"bytes", datatest.Parquet(t, bytes), []float32{1, 0.2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := mustOpen(t, datatest.Put(t, t.TempDir(), "own.parquet", c.file), federated.Options{})
			info := s.Info()
			if info.Input != learn.Dense || info.Features != 3 || info.Classes != 4 || info.Synthetic {
				t.Errorf("%+v", info)
			}
			if s.Clients() != 2 || s.Client(1) != "1" || s.Samples(0) != 4 || s.HeldOut() != 2 {
				t.Errorf("%d clients, %d samples, %d held out", s.Clients(), s.Samples(0), s.HeldOut())
			}
			b := datatest.All(t, s, 1)
			if !slices.Equal(b.X[1:3], c.x) {
				t.Errorf("first sample %v, want it to end in %v", b.X[:3], c.x)
			}
		})
	}
}

const twoUsers = `{"users": ["u", "v"], "num_samples": [2, 1], "hierarchies": [null, {"a": [true, -1e3]}],
	"user_data": {"v": {"y": [3], "x": [IMAGE]}, "u": {"x": [IMAGE, IMAGE], "y": [1, 61]}}}`

// leafImage is 784 pixels as LEAF writes them, the first one byte/255.
func leafImage(b int) string {
	return fmt.Sprintf("[%.17g", float64(b)/255) + strings.Repeat(", 1.0", federated.FEMNISTPixels-1) + "]"
}

func leafFile(template string) []byte {
	return []byte(strings.ReplaceAll(template, "IMAGE", leafImage(51)))
}

func TestOpen_LEAF(t *testing.T) {
	dir := t.TempDir()
	datatest.Put(t, dir, "train/b.json", leafFile(twoUsers))
	datatest.Put(t, dir, "train/a.json", leafFile(`{"users": ["w"], "user_data": {"w": {"x": [IMAGE], "y": [0]}}}`))
	datatest.Put(t, dir, "test/b.json", leafFile(`{"users": ["new", "u"], "user_data": {"u": {"x": [IMAGE], "y": [7]}, "new": {"x": [IMAGE], "y": [8]}}}`))
	for _, path := range []string{dir, filepath.Join(dir, "train")} {
		s := mustOpen(t, path, federated.Options{Task: "femnist"})
		if path == dir {
			// Shards in lexical order; a test user unknown in training is pooled.
			if s.Clients() != 3 || s.Client(0) != "w" || s.Client(1) != "u" || s.Samples(1) != 2 {
				t.Errorf("%d clients: %s, %s", s.Clients(), s.Client(0), s.Client(1))
			}
			if held := datatest.HeldOut(t, s, 0, s.HeldOut()); !slices.Equal(held.Labels, []int32{7, 8}) {
				t.Errorf("held out %v, want 7, 8", held.Labels)
			}
			if b := datatest.All(t, s, 1); !slices.Equal(b.Labels, []int32{1, 61}) || b.X[0] != 0.8 || b.X[1] != 0 {
				t.Errorf("labels %v, pixels %v; want 1, 61 and 0.8, 0", b.Labels, b.X[:2])
			}
			continue
		}
		// Without a test folder users are split; those with one sample cannot be.
		if s.Clients() != 1 || s.Samples(0) != 1 || s.HeldOut() != 1 || !strings.Contains(s.Info().Note, "2 clients without a training sample left out") {
			t.Errorf("%d clients, note %q", s.Clients(), s.Info().Note)
		}
	}
}

func TestOpen_LEAFShakespeareAndSent140(t *testing.T) {
	dir := t.TempDir()
	text := strings.Repeat("To be or!", 9)[:80]
	shakespeare := `{"users": ["HAMLET"], "user_data": {"HAMLET": {"x": ["` + text + `"], "y": ["T"]}}}`
	datatest.Put(t, dir, "train/a.json", []byte(shakespeare))
	datatest.Put(t, dir, "test/a.json", []byte(shakespeare))
	s := mustOpen(t, dir, federated.Options{Task: "shakespeare"})
	datatest.CheckBatch(t, s.Info(), datatest.All(t, s, 0), 1)
	if b := datatest.All(t, s, 0); federated.ShakespeareCharacters[b.Labels[0]] != 'T' || federated.ShakespeareCharacters[b.Tokens[3]] != 'b' {
		t.Errorf("label %d, tokens %v", b.Labels[0], b.Tokens)
	}

	dir = t.TempDir()
	tweets := `{"users": ["u"], "user_data": {"u": {"x": [["1", "Mon", "NO_QUERY", "u", "good  good day", "extra"], ["2", "Mon", "NO_QUERY", "u", "bad"]], "y": [1, "0"]}}}`
	datatest.Put(t, dir, "train/a.json", []byte(tweets))
	datatest.Put(t, dir, "test/a.json", []byte(tweets))
	s = mustOpen(t, dir, federated.Options{Task: "sent140"})
	b := datatest.All(t, s, 0)
	datatest.CheckBatch(t, s.Info(), b, 2)
	// good is the most frequent word, "" of the two spaces, day and bad follow.
	if !slices.Equal(b.Index, []int32{0, 1, 2, 3}) || !slices.Equal(b.Value, []float32{0.5, 0.25, 0.25, 1}) || !slices.Equal(b.Labels, []int32{1, 0}) {
		t.Errorf("bags %v %v, labels %v", b.Index, b.Value, b.Labels)
	}
}

func csvOf(lines ...string) []byte { return []byte(strings.Join(lines, "\r\n") + "\r\n") }

func tweet(polarity, user, text string) string {
	return fmt.Sprintf(`"%s","1","Mon Apr 06 22:19:57 PDT 2009","NO_QUERY","%s","%s"`, polarity, user, text)
}

func TestOpen_Tweets(t *testing.T) {
	// One word a tweet, so that the vocabulary can be read off the bags.
	var lines []string
	for i := range 5 {
		lines = append(lines, tweet("4", "many", fmt.Sprintf("caf\xe9 w%d", i)), tweet("0", "other", "x y"), tweet("0", "few", "z"))
	}
	lines = append(lines[:len(lines)-1], tweet("0", "many", "a, \"\"b\"\""))
	plain := csvOf(lines...)
	utf8 := bytes.ReplaceAll(plain, []byte{0xe9}, []byte("é"))
	var sets []*learn.Batch
	var digests []string
	for _, file := range [][]byte{plain, datatest.Gzip(t, plain), utf8} {
		s := mustOpen(t, datatest.Put(t, t.TempDir(), "tweets.csv", file), federated.Options{Task: "sent140", MinTweets: 5})
		if s.Clients() != 2 || s.Client(0) != "many" || s.Client(1) != "other" {
			t.Fatalf("%d clients, first %s", s.Clients(), s.Client(0))
		}
		if s.Samples(0) != 4 || s.Samples(1) != 4 {
			t.Errorf("%d and %d samples, want int(0.8*6) and int(0.8*5)", s.Samples(0), s.Samples(1))
		}
		b := datatest.All(t, s, 0)
		datatest.CheckBatch(t, s.Info(), b, 4)
		sets = append(sets, b)
		digests = append(digests, s.Info().Digest)
	}
	if !datatest.Same(sets[0], sets[1]) || !datatest.Same(sets[0], sets[2]) {
		t.Error("plain, gzip and UTF-8 differ")
	}
	if digests[0] == digests[1] {
		t.Error("two sources share a digest")
	}
}

// Tweets without users get made clients, which are called so.
func TestOpen_TweetsWithoutUsers(t *testing.T) {
	var lines []string
	for i := range 50 {
		lines = append(lines, fmt.Sprintf("%d\ta b%d", i%2, i%3))
	}
	path := datatest.Put(t, t.TempDir(), "t.tsv", []byte(strings.Join(lines, "\n")))
	s := mustOpen(t, path, federated.Options{Task: "sent140"})
	info := s.Info()
	if s.Clients() != 40 || s.HeldOut() != 10 || !info.Synthetic || !strings.Contains(info.Note, "made grouping: independent and identically distributed, 40 clients") {
		t.Errorf("%d clients, %d held out, %+v", s.Clients(), s.HeldOut(), info)
	}
	s = mustOpen(t, path, federated.Options{Partition: federated.Partition{Kind: "dirichlet", Clients: 4}})
	datatest.CheckBatch(t, s.Info(), datatest.All(t, s, 3), 10)
	path = datatest.Put(t, t.TempDir(), "t.tsv", []byte("0\ta\n2\tb\n"))
	if _, err := Open(path, federated.Options{}); err == nil || !strings.Contains(err.Error(), `t.tsv: line 2: polarity "2", want 0, 1 or 4`) {
		t.Error(err)
	}
}

func TestSplit(t *testing.T) {
	samples := []int32{10, 11, 12, 13, 14, 15, 16, 17, 18, 19}
	train, held := federated.Split(1, 0, samples)
	if len(train) != 8 || len(held) != 2 {
		t.Errorf("%v, %v", train, held)
	}
	again, _ := federated.Split(1, 0, samples)
	other, _ := federated.Split(1, 1, samples)
	seed, _ := federated.Split(2, 0, samples)
	if !slices.Equal(train, again) || slices.Equal(train, other) && slices.Equal(train, seed) {
		t.Error("the split is no function of seed and client")
	}
	for n := range 20 {
		train, held := federated.Split(1, 0, make([]int32, n))
		if len(train) != int(0.8*float64(n)) || len(train)+len(held) != n {
			t.Errorf("%d samples: %d + %d", n, len(train), len(held))
		}
	}
}

// Each error says what was found, where, and what would be right.
func TestOpen_Errors(t *testing.T) {
	bad := datatest.RawImages([]string{"a"}, 3)
	bad[2].Character = 62
	whole := datatest.Parquet(t, datatest.RawImages([]string{"a"}, 30))
	var negative, wide []ownRow
	for i := range 4 {
		negative = append(negative, ownRow{X: []float32{1}, Y: int32(-i)})
		wide = append(wide, ownRow{X: make([]float32, 1+i/3), Y: 1})
	}
	type wrong struct {
		A, B int64
	}
	image := leafImage(51)
	for _, c := range []struct {
		name, file string
		content    []byte
		opt        federated.Options
		want       string
	}{
		{"label", "x.parquet", datatest.Parquet(t, bad), federated.Options{}, "column character, row group 0, value 2: label 62 is outside the 62 classes, want 0 to 61"},
		{"negative label", "x.parquet", datatest.Parquet(t, negative), federated.Options{}, "column y, row group 0, value 1: label -1 is outside the 65536 classes"},
		{"label of own data", "x.parquet", datatest.Parquet(t, wide), federated.Options{Classes: 1}, "label 1 is outside the 1 classes, want 0 to 0"},
		{"ragged", "x.parquet", datatest.Parquet(t, wide), federated.Options{}, "row 3 has 2 numbers after rows of 1"},
		{"columns", "x.parquet", datatest.Parquet(t, []wrong{{1, 2}}), federated.Options{}, "x.parquet: found columns A, B; want writer_id, image, character (FEMNIST); img, fine_label, coarse_label (CIFAR-100); "},
		{"truncated", "x.parquet", whole[:len(whole)/2], federated.Options{}, "truncated Parquet file: it does not end in PAR1"},
		{"headless", "x.parquet", whole[len(whole)/2:], federated.Options{}, "damaged"},
		{"empty", "x.parquet", nil, federated.Options{}, "0 bytes are no Parquet file"},
		{"task", "x.parquet", whole, federated.Options{Task: "sent140"}, "x.parquet: found femnist (femnist (parquet)), want sent140"},
		{"no rows", "x.parquet", datatest.Parquet(t, []datatest.RawImage{}), federated.Options{}, "no row; want at least one sample"},
		{"one sample", "x.parquet", datatest.Parquet(t, datatest.RawImages([]string{"a"}, 1)), federated.Options{}, "no client has a sample to train on"},
		{"nothing known", "x.txt", []byte("hello"), federated.Options{}, "x.txt: is plain text, in no layout known here; want CIFAR-100"},
		{"nothing", "x.txt", nil, federated.Options{}, "x.txt: is empty; want CIFAR-100"},
		{"options", "x.txt", nil, federated.Options{MinTweets: -1}, "options: -1 tweets per user"},

		{"user without data", "x.json", []byte(`{"users": ["a", "b"], "num_samples": [1, 1], "user_data": {"a": {"x": [` + image + `], "y": [1]}}}`), federated.Options{}, `x.json: user "b" (number 1 of "users") has no data in "user_data"`},
		{"user without samples", "x.json", []byte(`{"users": ["a", "b"], "num_samples": [1, 0], "user_data": {"a": {"x": [` + image + `], "y": [1]}, "b": {"x": [], "y": []}}}`), federated.Options{}, `no client has a sample to train on, of 1 samples`},
		{"user without y", "x.json", []byte(`{"users": ["a"], "user_data": {"a": {"x": [` + image + `]}}}`), federated.Options{}, `x.json: user "a" has no x or no y`},
		{"samples and labels", "x.json", []byte(`{"users": ["a"], "user_data": {"a": {"x": [` + image + `], "y": [1, 2]}}}`), federated.Options{}, `user "a" has 1 samples in x and 2 labels in y`},
		{"num_samples", "x.json", []byte(`{"users": ["a"], "num_samples": [2], "user_data": {"a": {"x": [` + image + `], "y": [1]}}}`), federated.Options{}, `user "a" has 1 samples, num_samples says 2`},
		{"LEAF label", "x.json", []byte(`{"users": ["a"], "user_data": {"a": {"x": [` + image + `], "y": [62]}}}`), federated.Options{}, `x.json: user "a": y[0]: byte 3988: label 62 is outside the 62 classes, want 0 to 61`},
		{"short image", "x.json", []byte(`{"users": ["a"], "user_data": {"a": {"x": [[1.0, 0.0]], "y": [2]}}}`), federated.Options{}, `user "a": x[0]: byte 53: found 2 numbers and 0 strings, want 784 numbers`},
		{"id and date of a tweet", "x.json", []byte(`{"users": ["a"], "user_data": {"a": {"x": [["4", "Mon"]], "y": [0]}}}`), federated.Options{}, `user "a": x[0]: byte 55: found 2 strings, want the text of a tweet alone, or as number 5 of its fields`},
		{"pixel", "x.json", []byte(`{"users": ["a"], "user_data": {"a": {"x": [[1.5]], "y": [2]}}}`), federated.Options{}, `pixel 1.5, want a byte divided by 255, 0 to 1`},
		{"truncated JSON", "x.json", leafFile(twoUsers)[:5000], federated.Options{}, `x.json: user "u": x[0]: byte 5000: the file ends in the middle: it is truncated`},
		{"other JSON", "x.json", []byte(`{"a": 1}`), federated.Options{}, `x.json: is JSON (want a table of your own as CSV or Parquet): x.json: no "users" or no "user_data"; want LEAF's JSON`},
		{"not JSON", "x.json", []byte(`[1]`), federated.Options{}, `byte 0: found '[', which has no place there in LEAF's JSON`},

		{"columns of CSV", "x.csv", csvOf(tweet("4", "u", "a"), "a,b"), federated.Options{}, "x.csv: line 2: found 2 columns, want 6: polarity, id, date, query, user, text"},
		{"polarity", "x.csv", csvOf(tweet("4", "u", "a"), tweet("2", "u", "a")), federated.Options{}, `line 2: polarity "2", want 0 or 4`},
		{"few tweets", "x.csv", csvOf(tweet("4", "u", "a"), tweet("0", "u", "a")), federated.Options{}, "none of 1 users has 10 tweets"},
		{"empty CSV", "x.csv", nil, federated.Options{}, "x.csv: is empty; want a line with the names of the columns"},
		{"empty CSV, zipped", "x.csv.gz", datatest.Gzip(t, nil), federated.Options{}, "x.csv.gz: is empty; want a line with the names of the columns"},
		{"names alone", "x.csv", []byte("a,b\n"), federated.Options{}, "x.csv: columns a, b: nothing says what its columns mean"},
		{"names alone, with tabs", "x.tsv", []byte("a\tb\n"), federated.Options{}, "x.tsv: columns a, b: nothing says what its columns mean"},
		{"UTF-16", "x.csv", []byte("\xff\xfea\x00,\x00b\x00\n\x00"), federated.Options{}, "x.csv: the text is UTF-16; want UTF-8"},
		{"values alone", "x.csv", []byte("5.1,3.5,rose\n4.9,3.0,lily\n"), federated.Options{}, "x.csv: line 1 has the number 5.1 where the name of a column should be; want a line of names above the values"},
		{"whole values alone", "x.csv", []byte("6,148,72,6\n"), federated.Options{}, "x.csv: line 1 has the number 6 where"},
		{"numbers as names", "x.csv", []byte("0,1,2,y\n5.1,3.5,7,rose\n"), federated.Options{}, "x.csv: columns 0, 1, 2, y: nothing says"},
		{"names that are absent", "x.csv", []byte("a,,b,\n1,2,3,\n"), federated.Options{}, "x.csv: columns a, column 2, b, column 4: nothing says"},
		{"two columns of a name", "x.csv", []byte("a,b,a\n1,2,3\n"), federated.Options{}, `x.csv: line 1, column 3: "a" is the name of an earlier column, too`},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := datatest.Put(t, t.TempDir(), c.file, c.content)
			s, err := Open(path, c.opt)
			if err == nil {
				s.Close()
				t.Fatal("no error")
			}
			if !strings.HasPrefix(err.Error(), "data: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error\n%v\nwant\n%v", err, c.want)
			}
			if !strings.Contains(err.Error(), c.file) && c.name != "options" {
				t.Errorf("error does not name the file: %v", err)
			}
		})
	}
	for _, c := range []struct{ path, want string }{
		{strings.TrimSuffix(datatest.Put(t, t.TempDir(), "tickets.csv", nil), "ets.csv") + "est.csv", `tickets.csv"?)`},
		{filepath.Join(t.TempDir(), "absent.parquet"), "absent.parquet: no such file or directory"},
		{t.TempDir(), "found neither train/ nor a .json file"},
		{filepath.Dir(filepath.Dir(datatest.Put(t, t.TempDir(), "train/readme", nil))), "train: no .json file; want LEAF's training shards"},
	} {
		if _, err := Open(c.path, federated.Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error\n%v\nwant\n%v", err, c.want)
		}
	}
}

// A truncated gzip is no shorter set.
func TestOpen_TruncatedTweets(t *testing.T) {
	var lines []string
	for i := range 1000 {
		lines = append(lines, tweet("4", "u", fmt.Sprint("word", i*i)))
	}
	zipped := datatest.Gzip(t, csvOf(lines...))
	path := datatest.Put(t, t.TempDir(), "t.csv.gz", zipped[:len(zipped)-20])
	if _, err := Open(path, federated.Options{}); err == nil || !strings.Contains(err.Error(), "truncated or damaged after tweet") {
		t.Errorf("%v", err)
	}
}

// A folder in the place of a file is named as one.
func TestOpen_FolderIsNoParquetFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "set.parquet")
	datatest.Put(t, dir, "part.parquet/rows.csv", nil)
	r, _ := federated.Readers.Entry("parquet")
	if _, err := OpenWith(r, dir, federated.Options{}); err == nil || !strings.Contains(err.Error(), "part.parquet: is a directory") {
		t.Error(err)
	}
}
