//go:build unix

package folders

import (
	"os"
	"syscall"
	"testing"

	"fedpace/experiment/folder"
)

// Nothing waits for what a named pipe in the place of a run's file might say.
func TestLs_PipesAreNotRead(t *testing.T) {
	t.Chdir(t.TempDir())
	runIn(t, "runs/a")
	for name, want := range map[string]folder.RunState{folder.RoundsFile: folder.RunKilled, ".lock": folder.RunKilled, folder.SummaryFile: folder.RunDamaged} {
		if err := syscall.Mkfifo("runs/a/"+name, 0o666); err != nil {
			t.Skip(err)
		}
		if states, _ := listOf(t); states["runs/a"] != want {
			t.Errorf("%s: %v", name, states)
		}
		if err := os.Remove("runs/a/" + name); err != nil {
			t.Fatal(err)
		}
	}
}
