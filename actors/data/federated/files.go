package federated

import (
	"crypto/sha256"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// Files lists a folder's files with such names, in lexical order; nil if there
// is none.
func Files(dir, suffix string) (files []string) {
	names, _ := fs.Glob(os.DirFS(dir), "*"+suffix) // which fails on a bad pattern only
	for _, name := range names {
		files = append(files, filepath.Join(dir, name))
	}
	return files
}

// Hash identifies files by their content.
func Hash(names []string) ([][sha256.Size]byte, error) {
	sums := make([][sha256.Size]byte, len(names))
	return sums, Each(len(names), func(i int) error {
		f, err := OpenSource(names[i])
		if err != nil {
			return err
		}
		defer f.File.Close()
		h := sha256.New()
		_, err = io.Copy(h, f.File)
		sums[i] = [sha256.Size]byte(h.Sum(nil))
		return err
	})
}

// Each runs do for 0 to n-1 on all processors and waits for all.
func Each(n int, do func(i int) error) error {
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		workers.Go(func() error { return do(i) })
	}
	return workers.Wait()
}

// ParquetFiles lists a folder's Parquet files, those of data/ where it has none.
func ParquetFiles(dir string) []string {
	if files := Files(dir, ".parquet"); files != nil {
		return files
	}
	return Files(filepath.Join(dir, "data"), ".parquet")
}
