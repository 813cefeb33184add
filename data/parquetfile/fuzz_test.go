package parquetfile

import (
	"bytes"
	"testing"

	"github.com/parquet-go/parquet-go"

	"fedpace/data/datatest"
)

// readAll reads all columns of a sheet in every way, as far as they can be read.
func readAll(s *Sheet) {
	if s.Check(1) != nil {
		return
	}
	fields, _ := func() (list []Field, err error) {
		defer Damaged(&err)
		return s.Fields()
	}()
	for _, f := range fields {
		for group := range s.groups {
			_ = func() (err error) {
				defer Damaged(&err)
				return s.values(group, f.Name, false, Taker{Value: func(_ int, v parquet.Value) error {
					_, _ = f.Number(v)
					_ = f.IsElement(v)
					_ = f.Text(v)
					return nil
				}})
			}()
		}
		_ = func() (err error) {
			defer Damaged(&err)
			takeAll := func(Numbers) (bool, error) { return true, nil }
			return s.Take(f.Name, AnyValues, Taker{
				Value:   func(int, parquet.Value) error { return nil },
				Numbers: takeAll,
			})
		}()
	}
}

// Any bytes are a file whose columns can be read, or an error.
func FuzzSheet(f *testing.F) {
	f.Add(datatest.Parquet(f, datatest.RawImages([]string{"a", "b"}, 2)))
	f.Add(datatest.Parquet(f, datatest.RawImages([]string{"a"}, 5), parquet.Compression(&parquet.Zstd)))
	f.Add(datatest.Parquet(f, datatest.RawImages([]string{"a"}, 5), parquet.Compression(&parquet.Snappy), parquet.MaxRowsPerRowGroup(2)))
	for _, path := range datatest.Written(f, "testdata") {
		if b := datatest.Read(f, path); len(b) < 3000 {
			f.Add(b)
		}
	}
	f.Add([]byte("PAR1\x15\x00\x19\xfc\xff\xff\xff\xff\x0f\x00\x0b\x00\x00\x00PAR1"))
	f.Fuzz(func(t *testing.T, content []byte) {
		datatest.Guard(t, len(content), func() {
			if one, err := Open(bytes.NewReader(content), int64(len(content))); err == nil {
				readAll(Join(one))
			}
		})
	})
}
