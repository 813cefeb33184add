package ui_test

import (
	"path/filepath"
	"testing"

	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/experiment/ui"
)

// A run that is given in several words is one.
func TestLibrary_RunOnce(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	r, err := folder.CreateResults("runs/a", config.Demonstration(), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	library, err := ui.Open("test", "runs", filepath.Join(root, "runs"), "./runs/a")
	if err != nil || library.Len() != 1 {
		t.Errorf("%d runs, %v", library.Len(), err)
	}
}
