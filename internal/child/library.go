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

// PythonEnvironment returns this process's environment with what a process of Python needs to give
// the same bits each time: the number of threads of its arithmetic, one order of sets, and a
// PYTHONPATH that begins with the folder library. marks are further variables, NAME=VALUE, which
// win over those before them.
func PythonEnvironment(library string, threads int, marks ...string) []string {
	// With a fixed seed of hashes, sets have one order in all processes.
	list := append(os.Environ(), "PYTHONHASHSEED=0")
	// Each of the usual libraries of arithmetic reads its own variable.
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

// PythonLibrary returns a folder with the Python package of this program, and writes what is not
// there yet. It lies in the user's cache under a digest of the package, so that each version has
// its own, and stays for later runs.
func PythonLibrary() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		// A user without a home has no cache.
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

// writeModule writes source to the file at path, with the folders above it, unless the file exists
// with this content. Other processes may write the same file at the same time.
func writeModule(path string, source []byte) error {
	if found, err := os.ReadFile(path); err == nil && bytes.Equal(found, source) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(path, atomicfile.Bytes(source))
}
