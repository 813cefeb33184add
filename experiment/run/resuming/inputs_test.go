package resuming_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/experiment/run"

	"fedpace/experiment/folder"
)

// TestResume_ChangedInputs stops a run after its first checkpoint and changes the links that its
// configuration names: resume refuses and names the file, and goes on once it is back.
func TestResume_ChangedInputs(t *testing.T) {
	t.Parallel()
	links := filepath.Join(t.TempDir(), "links.csv")
	write := func(mbps string) {
		text := "trace,second,download_mbps,upload_mbps\na,0," + mbps + "," + mbps + "\na,1," + mbps + "," + mbps + "\n"
		if err := os.WriteFile(links, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("20")
	c := pausing(t, "network.links="+links)
	stopAt(t, 5, func(ctx context.Context, o run.Options) error {
		_, err := run.Run(ctx, c, o)
		return err
	})
	write("2")
	_, err := run.Resume(t.Context(), c.Out, run.Options{})
	if !errors.Is(err, folder.ErrInputs) || !strings.Contains(err.Error(), links+" (network.links)") {
		t.Errorf("resumed with other links: %v", err)
	}
	write("20")
	r, err := run.Resume(t.Context(), c.Out, run.Options{})
	if err != nil || r.Summary.Rounds != 25 {
		t.Errorf("resumed with the links that it began with: %d rounds, %v", r.Summary.Rounds, err)
	}
}
