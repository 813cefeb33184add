package cmd

import (
	"strings"
	"testing"
)

// What the runs of the paper cost is said when they are done, and where none was played nothing is.
func TestPaper_ReportsTime(t *testing.T) {
	t.Chdir(t.TempDir())
	args := []string{"paper", "--timing", "--tasks", "sent140", "--scale", "0.001"}
	first, said := fedpaceTo(t, 0, args...)
	if !strings.Contains(said, " core-hours of this machine, in ") {
		t.Errorf("it says %q", said)
	}
	again, said := fedpaceTo(t, 0, args...)
	if strings.Contains(said, "core-hours") || again != first {
		t.Errorf("a second time it says %q and prints\n%s, first\n%s", said, again, first)
	}
}
