package datatest

import (
	_ "embed" // the script that writes files
	"os"
	"os/exec"
	"testing"
)

// packages are the packages of PyPI that write files for tests.
var packages = []string{
	"pyarrow==26.0.1",
	"pandas==3.1.1",
	"polars==2.1.0",
	"duckdb==2.0.1",
	"fastparquet==2026.9.0",
	"datasets==5.2.0",
	"h5py==3.16.0",
	"pillow==13.0.0",
	"safetensors==0.8.0",
}

// FlowerPackages are those of flwr-datasets, which needs an older version of Hugging Face's datasets.
var FlowerPackages = []string{"flwr-datasets==0.6.1", "pandas==3.1.1"}

// Python plays a script in a folder, with the given packages or, without any, with those that write files
// for tests, and returns what it prints. uv installs them from PyPI, so that only long tests call it.
func Python(t testing.TB, folder string, needs []string, script ...string) string {
	t.Helper()
	if needs == nil {
		needs = packages
	}
	args := []string{"run", "--quiet", "--no-project", "--python", "3.11"}
	for _, p := range needs {
		args = append(args, "--with", p)
	}
	command := exec.CommandContext(t.Context(), "uv", append(append(args, "python"), script...)...)
	command.Dir = folder
	command.Env = append(os.Environ(), "HF_HUB_OFFLINE=1", "HF_DATASETS_DISABLE_PROGRESS_BARS=1", "PYTHONDONTWRITEBYTECODE=1")
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", script, err, out)
	}
	return string(out)
}

// writeScript writes a folder of Parquet files with every writer; its own text says how.
//
//go:embed testdata/writers/python/write.py
var writeScript []byte

// PythonPackages returns a folder of Parquet files that the packages have written, each with what its
// writer reads back in JSON beside it. FEDPACE_PACKAGES names such a folder that is there already.
func PythonPackages(t testing.TB) string {
	t.Helper()
	if folder := os.Getenv("FEDPACE_PACKAGES"); folder != "" {
		return folder
	}
	// The script lies in the program, because a build with -trimpath does not know where its source is.
	folder := t.TempDir()
	script := Put(t, t.TempDir(), "write.py", writeScript)
	t.Log(Python(t, folder, nil, script, folder))
	return folder
}
