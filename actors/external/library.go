package external

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"

	"fedpace/internal/atomicfile"
	"fedpace/python"
)

// libraryFolder is a folder that holds the Python package as this program has it. It stays,
// for the next run.
func libraryFolder() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	modules, digest := python.Modules(), sha256.New()
	for _, m := range modules {
		fmt.Fprintf(digest, "%s %d\n%s", m.Path, len(m.Source), m.Source)
	}
	dir := filepath.Join(cache, "fedpace", fmt.Sprintf("python-%.16x", digest.Sum(nil)))
	for _, m := range modules {
		if err := writeModule(filepath.Join(dir, filepath.FromSlash(m.Path)), m.Source); err != nil {
			return "", fmt.Errorf("trainer: the Python package: %w (give XDG_CACHE_HOME or HOME a folder that can be written to)", err)
		}
	}
	return dir, nil
}

// writeModule writes a file unless it is there.
func writeModule(path string, source []byte) error {
	if found, err := os.ReadFile(path); err == nil && bytes.Equal(found, source) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(path, atomicfile.Bytes(source))
}
