package data

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"fedpace/actors/data/federated"
	"fedpace/actors/data/internal/datatest"
	"fedpace/actors/data/text"
	"fedpace/actors/learn"

	"github.com/parquet-go/parquet-go"
)

// guard fails when reading n bytes of input allocates what they cannot back.
// Parquet's own ratio of decoded to stored bytes is believed up to a thousand.
func guard(t *testing.T, n int, read func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	read()
	runtime.ReadMemStats(&after)
	if got, limit := after.TotalAlloc-before.TotalAlloc, uint64(64<<20+n*8*expansion); got > limit {
		t.Errorf("%d bytes of input made the reader allocate %d, more than %d", n, got, limit)
	}
}

// readAll reads all columns of a sheet in every way, as far as they can be read.
func readAll(s *sheet) {
	if s.check(1) != nil {
		return
	}
	fields, _ := func() (list []field, err error) {
		defer damaged(&err)
		return s.fields()
	}()
	for _, f := range fields {
		for group := range s.groups {
			_ = func() (err error) {
				defer damaged(&err)
				return s.values(group, f.name, func(v parquet.Value) error {
					_, _ = f.float(v)
					_, _ = f.integer(v)
					_, _ = f.text(v)
					return nil
				})
			}()
		}
		_ = func() (err error) {
			defer damaged(&err)
			return s.lists(f.name, func(int, []float32) error { return nil })
		}()
	}
}

// usable fails when a set that a reader accepted breaks a promise.
func usable(t *testing.T, s *federated.Grouped) {
	t.Helper()
	if s.Clients() < 1 || s.HeldOut() < 1 {
		t.Fatalf("%d clients, %d held out", s.Clients(), s.HeldOut())
	}
	for c := range s.Clients() {
		if s.Samples(c) < 1 {
			t.Fatalf("client %d has no sample", c)
		}
	}
	b := new(learn.Batch)
	if err := s.Batch(b, s.Clients()-1, []int32{0}); err != nil {
		t.Fatal(err)
	}
	datatest.CheckBatch(t, s.Info(), b, 1)
}

func FuzzParquet(f *testing.F) {
	f.Add(sheetOf(f, rawImages([]string{"a", "b"}, 2)))
	f.Add(sheetOf(f, rawImages([]string{"a"}, 5), parquet.Compression(&parquet.Zstd)))
	f.Add(sheetOf(f, rawImages([]string{"a"}, 5), parquet.Compression(&parquet.Snappy), parquet.MaxRowsPerRowGroup(2)))
	f.Add(sheetOf(f, []ownRow{{1, []float32{1, 2}, 0}, {1, []float32{1, 2}, 1}}))
	var p pngImage
	p.Image.Bytes = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x7f\xff\xff\xff\x7f\xff\xff\xff\x08\x00\x00\x00\x00")
	f.Add(sheetOf(f, []pngImage{p, p}))
	for _, path := range written(f) {
		if b := readFile(f, path); len(b) < 3000 {
			f.Add(b)
		}
	}
	f.Add([]byte("PAR1\x15\x00\x19\xfc\xff\xff\xff\xff\x0f\x00\x0b\x00\x00\x00PAR1"))
	f.Fuzz(func(t *testing.T, content []byte) {
		guard(t, len(content), func() {
			one, err := openTable(bytes.NewReader(content), int64(len(content)))
			if err != nil {
				return
			}
			one.name = "train.parquet"
			readAll(newSheet(one))
			test := newSheet()
			if one.Root().Column("img") != nil {
				test = newSheet(one)
			}
			if s, err := readSheets(newSheet(one), test, federated.Options{MinTweets: 1}); err == nil {
				usable(t, s)
			}
		})
	})
}

func FuzzLEAF(f *testing.F) {
	f.Add(leafFile(twoUsers))
	f.Add([]byte(`{"users": ["a\u00e9\ud83d\ude00"], "num_samples": [2], "user_data": {"a": {"x": ["` + strings.Repeat("a", federated.ShakespeareWindow) + `"], "y": ["b"]}}}`))
	f.Add([]byte(`{"users": ["a"], "user_data": {"a": {"x": [["1", "2", "3", "4", "a b"], ["c"]], "y": [0, "4"]}}}`))
	f.Add([]byte(strings.Repeat(`{"a":[`, 100)))
	f.Fuzz(func(t *testing.T, content []byte) {
		guard(t, len(content), func() {
			shard, err := readShard(bytes.NewReader(content))
			if err != nil {
				return
			}
			shard.name = "a.json"
			if s, err := joinShards([]*leafShard{shard}, nil, federated.Options{}); err == nil {
				usable(t, s)
			}
		})
	})
}

func FuzzTweets(f *testing.F) {
	f.Add(csvOf(tweet("4", "u", "a  b"), tweet("0", "u", "caf\xe9")))
	f.Add([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x01\x05\x00"))
	f.Add([]byte(`"0","1","2","3","4","an open quote`))
	f.Add([]byte("0\ta b\n1\tc\n1\tc\n1\tc a\n0\tx\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		guard(t, len(content), func() {
			if s, err := text.ReadTweets(bytes.NewReader(content), federated.Options{MinTweets: 1}); err == nil {
				usable(t, s)
			}
		})
	})
}
