package datatest

import (
	"embed"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"fedpace/internal/testkit/installed"
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

// SparkPackages are Spark, which needs Java, and what its script draws values with.
var SparkPackages = []string{"pyspark==4.1.1", "pandas==3.1.1"}

// Python runs a script in a folder and returns what it prints. script is the path of the script and its
// arguments. required are the packages that it imports; nil stands for those that write files for tests. uv
// installs them from PyPI, so that only long tests call it.
func Python(t testing.TB, folder string, required []string, script ...string) string {
	t.Helper()
	if required == nil {
		required = packages
	}
	args := []string{"run", "--quiet", "--no-project", "--python", "3.11"}
	for _, p := range required {
		args = append(args, "--with", p)
	}
	command := exec.CommandContext(t.Context(), "uv", append(append(args, "python"), script...)...)
	command.Dir = folder
	command.Env = append(
		os.Environ(),
		"HF_HUB_OFFLINE=1",
		"HF_DATASETS_DISABLE_PROGRESS_BARS=1",
		"PYTHONDONTWRITEBYTECODE=1",
	)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", script, err, out)
	}
	return string(out)
}

// scripts are the scripts that write files. They lie in the program, because a build with -trimpath does
// not know where its source is.
//
//go:embed testdata/writers/python/*.py
var scripts embed.FS

// Script copies all embedded Python scripts to a new folder of the test, and returns the path of the one with
// this name.
func Script(t testing.TB, name string) string {
	t.Helper()
	const from = "testdata/writers/python"
	entries, err := scripts.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for _, entry := range entries {
		content, err := scripts.ReadFile(from + "/" + entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		Put(t, folder, entry.Name(), content)
	}
	return filepath.Join(folder, name)
}

// Spark plays the script of Spark with some arguments. It needs Java.
func Spark(t *testing.T, folder string, args ...string) string {
	t.Helper()
	installed.Program(t, "java", "default-jre-headless")
	return Python(t, folder, SparkPackages, append([]string{Script(t, "spark.py")}, args...)...)
}

// PythonPackages returns a folder of Parquet files that Python packages (see packages) and Spark have written.
// Beside each file is one in JSON, with what the file's writer reads back from it. If FEDPACE_PACKAGES names a
// folder, it must be such a one, and nothing is written.
func PythonPackages(t *testing.T) string {
	t.Helper()
	if folder := os.Getenv("FEDPACE_PACKAGES"); folder != "" {
		return folder
	}
	folder := t.TempDir()
	t.Log(Python(t, folder, nil, Script(t, "write.py"), folder))
	t.Log(Spark(t, folder, "columns", folder))
	return folder
}
