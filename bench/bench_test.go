//go:build linux

package bench

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// A host that fails ends the measurement, and its coordinator, which would wait for it.
func TestAProgramThatFails(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "python3", "-B", "-c", `
import atexit
from measure import CHILDREN, Child, ended
leader = Child(["sleep", "600"])
atexit.register(lambda: print("leader", leader.process.wait()))
with CHILDREN:
    ended([leader, Child(["true"]), Child(["false"])])
`).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "false\nended with 1:") || !strings.Contains(string(out), "leader -9") {
		t.Errorf("%s (%v)", out, err)
	}
}

// A first look does not write over what was measured in whole.
func TestAFirstLook(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "python3", "-B", ".", "--length", "0.1").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "give --out FOLDER") {
		t.Errorf("%s (%v)", out, err)
	}
}
