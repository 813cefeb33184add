package data

import (
	"bytes"
	"strings"
	"testing"

	"fedpace/data/datatest"
	"fedpace/data/federated"
	"fedpace/data/parquetfile"
	"fedpace/data/table"

	"github.com/parquet-go/parquet-go"
)

func FuzzParquet(f *testing.F) {
	f.Add(datatest.Parquet(f, datatest.RawImages([]string{"a", "b"}, 2)))
	f.Add(datatest.Parquet(f, datatest.RawImages([]string{"a"}, 5), parquet.Compression(&parquet.Zstd)))
	f.Add(datatest.Parquet(f, datatest.RawImages([]string{"a"}, 5), parquet.Compression(&parquet.Snappy), parquet.MaxRowsPerRowGroup(2)))
	f.Add(datatest.Parquet(f, []ownRow{{1, []float32{1, 2}, 0}, {1, []float32{1, 2}, 1}}))
	var p pngImage
	p.Image.Bytes = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x7f\xff\xff\xff\x7f\xff\xff\xff\x08\x00\x00\x00\x00")
	f.Add(datatest.Parquet(f, []pngImage{p, p}))
	for _, path := range datatest.Written(f, "parquetfile/testdata") {
		if b := datatest.Read(f, path); len(b) < 3000 {
			f.Add(b)
		}
	}
	f.Add([]byte("PAR1\x15\x00\x19\xfc\xff\xff\xff\xff\x0f\x00\x0b\x00\x00\x00PAR1"))
	f.Fuzz(func(t *testing.T, content []byte) {
		datatest.Guard(t, len(content), func() {
			one, err := parquetfile.Open(bytes.NewReader(content), int64(len(content)))
			if err != nil {
				return
			}
			one.Name = "train.parquet"
			all, test := parquetfile.Join(one), parquetfile.Join()
			if all.HasColumn("img") {
				test = all
			}
			if s, err := readSheets(all, test, federated.Options{MinTweets: 1}); err == nil {
				datatest.Usable(t, s)
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
		datatest.Guard(t, len(content), func() {
			shard, err := readShard(bytes.NewReader(content))
			if err != nil {
				return
			}
			shard.name = "a.json"
			if s, err := joinShards([]*leafShard{shard}, nil, federated.Options{}); err == nil {
				datatest.Usable(t, s)
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
		datatest.Guard(t, len(content), func() {
			if s, err := openTweets(bytes.NewReader(content), federated.Options{MinTweets: 1}); err == nil {
				datatest.Usable(t, s)
			}
		})
	})
}

func FuzzLEAFNumbers(f *testing.F) {
	f.Add([]byte(`{"users": ["a"], "user_data": {"a": {"y": [0.0, 1.0, 0, 1, 1], "x": [[1, 2], [3, 4e1], [5, -6], [7, 8], [9, 0]]}}}`))
	f.Add([]byte(`{"user_data": {"a": {"x": [[[1], [2]], [[3]], null, "s", true], "y": [0, 1, "2", null, [1]]}}}`))
	f.Add([]byte(strings.Repeat(`{"user_data":{"a":{"x":[`, 100)))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content []byte) {
		path := datatest.Put(t, dir, "a.json", content)
		datatest.Guard(t, len(content), func() {
			s, err := OpenWith(table.Table{Client: "user", Features: []string{"x"}, Label: "y"}, path, federated.Options{})
			if err == nil {
				datatest.Usable(t, s.(*federated.Grouped))
			}
		})
	})
}
