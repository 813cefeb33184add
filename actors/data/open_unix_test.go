//go:build unix

package data

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"fedpace/actors/data/federated"
)

// A pipe would be waited on for ever.
func TestAPipeIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe.parquet")
	if err := syscall.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, federated.Options{}); err == nil || !strings.Contains(err.Error(), "neither a file nor a folder") {
		t.Errorf("error %v", err)
	}
}
