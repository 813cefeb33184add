package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"fedpace/internal/testkit/slow"
)

// The wheel of this machine is installed by uv into environments of the oldest, a middle and a new Python,
// puts the program on the path, and plays a run from Python.
func TestWheel_Installed(t *testing.T) {
	slow.Test(t, "it installs Pythons and numpy from the network")
	platform := runtime.GOOS + "-" + runtime.GOARCH
	if _, ok := tags[platform]; !ok {
		t.Skipf("no wheel is for %s", platform)
	}
	dir := t.TempDir()
	binary := filepath.Join(dir, "fedpace-"+platform)
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, "../../cmd/fedpace")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b := builder{version: "0.dev0", python: "../../python", licence: "../../LICENSE", out: dir}
	path, err := b.build(binary)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	// 17.9 MB were measured.
	const largest = 20_000_000
	if info.Size() > largest {
		t.Errorf("the wheel has %d bytes, want at most %d", info.Size(), largest)
	}
	const play = `import fedpace, json, shutil, subprocess, sys
run = fedpace.simulate({"clients": 20, "cohort": 4, "train": False, "stop": {"rounds": 3}}, out=sys.argv[1])
version = subprocess.run(["fedpace", "--version"], stdout=subprocess.PIPE, check=True)
module = subprocess.run([sys.executable, "-m", "fedpace", "--version"], stdout=subprocess.PIPE, check=True)
print(json.dumps([len(run.rounds), version.stdout == module.stdout, fedpace.program() == shutil.which("fedpace")]))`
	for _, version := range []string{"3.9", "3.11", "3.13"} {
		t.Run(version, func(t *testing.T) {
			c := exec.CommandContext(t.Context(), "uv", "run", "--quiet", "--no-project", "--isolated", "--python", version,
				"--with", path, "python", "-c", play, filepath.Join(dir, "run-"+version))
			for _, variable := range os.Environ() {
				if !strings.HasPrefix(variable, "FEDPACE") {
					c.Env = append(c.Env, variable)
				}
			}
			c.Dir = dir
			c.Stderr = os.Stderr
			out, err := c.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			var got []any
			if err := json.Unmarshal(out, &got); err != nil || len(got) != 3 || got[0] != 3.0 || got[1] != true || got[2] != true {
				t.Errorf("%s, %v", out, err)
			}
		})
	}
}
