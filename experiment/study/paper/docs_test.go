package paper

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// docs holds what docs/paper.md is written from: a folder of curves for each
// evaluation that was done in full.
const docs = "../../../docs/paper"

// The figures in docs are those of the curves beside them, and every row of the
// tables that those curves give stands in docs/paper.md.
func TestFiguresAndTablesInDocsAreThoseOfTheirCurves(t *testing.T) {
	page, err := os.ReadFile(docs + ".md")
	if err != nil {
		t.Fatal(err)
	}
	kept, err := filepath.Glob(filepath.Join(docs, "*", CellsFile))
	if err != nil || len(kept) == 0 {
		t.Fatalf("no curves in %s (%v)", docs, err)
	}
	for _, path := range kept {
		dir := filepath.Dir(path)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			curves, err := Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			drawn := t.TempDir()
			if err := Draw(drawn, curves); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{Figure1File, Figure2File} {
				want, err := os.ReadFile(filepath.Join(dir, name))
				if errors.Is(err, os.ErrNotExist) && curves[0].Data == "" {
					continue // timing only
				}
				if err != nil {
					t.Fatal(err)
				}
				got, err := os.ReadFile(filepath.Join(drawn, name))
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, want) {
					t.Errorf("%s is not the figure of its curves (fedpace paper --from %s draws it)", filepath.Join(dir, name), dir)
				}
			}
			var tables bytes.Buffer
			if err := errors.Join(WriteTable4(&tables, curves), WriteOutcomes(&tables, curves)); err != nil {
				t.Fatal(err)
			}
			rows := 0
			for line := range strings.Lines(tables.String()) {
				if line = strings.TrimSpace(line); !strings.HasPrefix(line, string(curves[0].Task)+" ") {
					continue
				}
				rows++
				if !bytes.Contains(page, []byte(line)) {
					t.Errorf("docs/paper.md lacks the row %q", line)
				}
			}
			if rows == 0 {
				t.Error("the curves give no row")
			}
		})
	}
}
