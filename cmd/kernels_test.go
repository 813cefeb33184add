//go:build unix

package cmd

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"fedpace/experiment/folder"
	"fedpace/internal/testkit/slow"
)

// fedpaceForARM is the program for linux/arm64, for the emulator.
var fedpaceForARM = sync.OnceValues(func() (string, error) {
	return build("fedpace", "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
})

// Real arm64 instructions: plain Go has the same bits as here, and NEON bits of its
// own, with the same history.
func TestKernels_AnotherMachine(t *testing.T) {
	slow.Test(t, "it computes in an emulator of arm64")
	t.Parallel()
	if runtime.GOARCH == "arm64" {
		t.Skip("this machine is the other")
	}
	arm := emulated(t, fedpaceForARM)
	on := map[string]func(args ...string) *exec.Cmd{
		"here": func(args ...string) *exec.Cmd { return fedpace(t, args...) },
		"arm64": func(args ...string) *exec.Cmd {
			return exec.CommandContext(t.Context(), arm[0], append(arm[1:], args...)...)
		},
	}
	play := func(machine, kernel string) (s folder.Summary) {
		args := []string{"run", "--quiet", "--json", "--out", filepath.Join(t.TempDir(), "run"), "--set", "kernel=" + kernel}
		for _, set := range []string{"clients=6", "cohort=3", "batch=4", "schedule.k0=2", "stop.rounds=2", "evaluate.samples=20"} {
			args = append(args, "--set", set)
		}
		stdout, stderr, exit := finish(t, on[machine](args...))
		if exit != 0 {
			t.Fatalf("kernel %s on %s: exit %d: %s", kernel, machine, exit, stderr)
		}
		if err := json.Unmarshal([]byte(stdout), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	plain, same, neon := play("here", "go"), play("arm64", "go"), play("arm64", "auto")
	if *plain.ModelSHA256 != *same.ModelSHA256 {
		t.Errorf("plain Go gives the model %s here and %s on arm64", *plain.ModelSHA256, *same.ModelSHA256)
	}
	if own := *neon.ModelSHA256; neon.Kernel != "neon" || own == *plain.ModelSHA256 {
		t.Errorf("class %s gives the model %s, and plain Go %s", neon.Kernel, own, *plain.ModelSHA256)
	}
	if plain.Fingerprint != same.Fingerprint || plain.Fingerprint != neon.Fingerprint {
		t.Errorf("the fingerprints are %s here, %s on arm64 and %s with NEON", plain.Fingerprint, same.Fingerprint, neon.Fingerprint)
	}
	const want = "kernel: avx needs an amd64 processor with AVX2 and FMA, and this machine has go, neon (set go, which every machine has, or auto)"
	if _, stderr, exit := finish(t, on["arm64"]("run", "--set", "kernel=avx", "--out", filepath.Join(t.TempDir(), "run"))); exit != 1 || !strings.Contains(stderr, want) {
		t.Errorf("kernel avx on arm64: exit %d, said %q, want %q", exit, stderr, want)
	}
}
