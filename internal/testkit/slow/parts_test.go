package slow_test

import (
	"path/filepath"
	"testing"

	"fedpace/internal/testkit/slow"
)

func TestNextSeed_ReadsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "next")
	if seed := slow.NextSeed(t, path); seed != 0 {
		t.Errorf("without a file the first seed is %d, want 0", seed)
	}
	slow.SetNextSeed(t, path, 300)
	if seed := slow.NextSeed(t, path); seed != 300 {
		t.Errorf("the next seed is %d, want 300", seed)
	}
	slow.SetNextSeed(t, "", 400)
	if seed := slow.NextSeed(t, ""); seed != 0 {
		t.Errorf("without a path the first seed is %d, want 0", seed)
	}
}
