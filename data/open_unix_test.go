//go:build unix

package data

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"fedpace/data/federated"
)

// A pipe would be waited on for ever, and a device read without end, also within a folder.
func TestOpen_Pipe(t *testing.T) {
	for _, name := range []string{"pipe.parquet", "train/pipe.json", "train.bin", "tweets.csv"} {
		for _, device := range []bool{false, true} {
			dir := t.TempDir()
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
				t.Fatal(err)
			}
			put := func() error { return syscall.Mkfifo(path, 0o666) }
			if device {
				put = func() error { return os.Symlink("/dev/zero", path) }
			}
			if err := put(); err != nil {
				t.Fatal(err)
			}
			if name != "tweets.csv" { // a folder in which it lies
				path = dir
			}
			if _, err := Open(path, federated.Options{}); err == nil || !strings.Contains(err.Error(), "neither a file nor a folder") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
