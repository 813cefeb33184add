package external

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"fedpace/internal/atomicfile"
	"fedpace/python"
)

// libraryFolder is a folder that holds fedpace.py as this program has it. It stays, for
// the next run.
func libraryFolder() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "fedpace", fmt.Sprintf("python-%.16x", sha256.Sum256(python.Source)))
	path := filepath.Join(dir, python.Name)
	if found, err := os.ReadFile(path); err == nil && string(found) == string(python.Source) {
		return dir, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("trainer: a folder for %s: %w (give XDG_CACHE_HOME or HOME a folder that can be written to)", python.Name, err)
	}
	if err := atomicfile.Write(path, func(w io.Writer) error { _, err := w.Write(python.Source); return err }); err != nil {
		return "", fmt.Errorf("trainer: %w (give XDG_CACHE_HOME or HOME a folder that can be written to)", err)
	}
	return dir, nil
}
