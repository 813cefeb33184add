package identity

import (
	"slices"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/data/datatest"
)

// TestFiles_ArgumentsOfTrainer has a trainer's command with files among its arguments: their content counts,
// wherever they stand, but not that of a log, nor the script, which the trainer's own digest covers.
func TestFiles_ArgumentsOfTrainer(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"mine.py", "net.yaml", "start.pt", "out.log", "folder/x"} {
		datatest.Put(t, dir, name, []byte("1\n"))
	}
	configured := func(command string) config.Config {
		c := config.Demonstration()
		c.Train = true
		c.Trainer.Command = command
		return c
	}
	c := configured("python3 -u mine.py net.yaml --start=start.pt --log out.log folder absent 0.1")
	read := func(c config.Config) *Identity {
		files, err := Files(&c)
		if err != nil {
			t.Fatal(err)
		}
		return &Identity{Config: c, Files: files, Trainer: "the same"}
	}
	begun := read(c)
	var keys []string
	for _, f := range begun.Files {
		keys = append(keys, f.Key+" "+f.Path)
	}
	if want := []string{"trainer[0] net.yaml", "trainer[1] start.pt"}; !slices.Equal(keys, want) {
		t.Errorf("%q, want %q", keys, want)
	}
	for name, counts := range map[string]bool{"mine.py": false, "net.yaml": true, "start.pt": true, "out.log": false, "folder/x": false} {
		datatest.Put(t, dir, name, []byte("2\n"))
		d := begun.Difference(read(c))
		if (d != nil) != counts || counts && !strings.Contains(d.Text, name) {
			t.Errorf("%s changed: %v", name, d)
		}
		datatest.Put(t, dir, name, []byte("1\n"))
	}
	// Another Python, or the script in another folder, is the same work.
	if d := begun.Difference(read(configured("python3.12 ./mine.py net.yaml --start=start.pt"))); d != nil {
		t.Error(d)
	}
	// Hosts are not told the command.
	if files := read(c.ForHosts()).Files; len(files) != 0 {
		t.Errorf("hosts are told %v", files)
	}
}
