package child

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"

	"fedpace/internal/atomicfile"
	"fedpace/python"
)

// PythonEnvironment is this process's environment with what a process of Python needs to give the
// same bits each time: a number of threads, one order of sets, and a PYTHONPATH that begins with the
// folder library. marks are further variables, NAME=VALUE.
func PythonEnvironment(library string, threads int, marks ...string) []string {
	list := append(os.Environ(), "PYTHONHASHSEED=0") // sets have one order in all processes
	for _, name := range []string{"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"} {
		list = append(list, fmt.Sprintf("%s=%d", name, threads))
	}
	path := library
	if old := os.Getenv("PYTHONPATH"); old != "" {
		path += string(os.PathListSeparator) + old
	}
	list = append(list, "PYTHONPATH="+path)
	return append(list, marks...)
}

// PythonLibrary returns a folder with the Python package of this program. It lies in the user's
// cache under a digest of the package, and stays for later runs.
func PythonLibrary() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	modules := python.Modules()
	digest := sha256.New()
	for _, m := range modules {
		fmt.Fprintf(digest, "%s %d\n%s", m.Path, len(m.Source), m.Source)
	}
	dir := filepath.Join(cache, "fedpace", fmt.Sprintf("python-%.16x", digest.Sum(nil)))
	for _, m := range modules {
		if err := writeModule(filepath.Join(dir, filepath.FromSlash(m.Path)), m.Source); err != nil {
			return "", fmt.Errorf(
				"the Python package: %w (give XDG_CACHE_HOME or HOME a folder that can be written to)",
				err,
			)
		}
	}
	return dir, nil
}

// writeModule writes a file unless it exists with this content.
func writeModule(path string, source []byte) error {
	if found, err := os.ReadFile(path); err == nil && bytes.Equal(found, source) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(path, atomicfile.Bytes(source))
}
