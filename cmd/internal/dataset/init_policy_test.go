package dataset

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/experiment/policies"
	"fedpace/internal/testkit/installed"
)

// Each kind is written in ten lines or so, is found by the setting that is told, and overwrites nothing.
func TestInit_Policies(t *testing.T) {
	installed.Program(t, "python3", "python3")
	for _, kind := range policyNames() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "mine.py")
			var told bytes.Buffer
			if err := beginPolicy(&told, kind, file); err != nil {
				t.Fatal(err)
			}
			_, setting, _ := strings.Cut(told.String(), "--set '")
			c, err := config.Load("", []string{"task=femnist", strings.TrimSpace(strings.TrimSuffix(setting, "'\n"))})
			if err != nil {
				t.Fatal(err)
			}
			if c.Validate() != nil || len(policies.Files(&c)) != 1 {
				t.Fatalf("%s: %v, %v", setting, c.Validate(), policies.Files(&c))
			}
			set, err := policies.Open(t.Context(), &c, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := set.Close(); err != nil {
				t.Error(err)
			}
			if err := beginPolicy(io.Discard, kind, file); err == nil {
				t.Error("a second one overwrites the first")
			}
		})
	}
	if err := beginPolicy(io.Discard, "weights", ""); err == nil || !strings.Contains(err.Error(), "closing") {
		t.Errorf("a kind that is not there: %v", err)
	}
}
