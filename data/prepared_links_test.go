package data

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/data/datatest"
	"fedpace/data/federated"
	"fedpace/data/table"
)

// TestPrepared_LinksAreFollowed opens a folder of links as Hugging Face's cache is, and changes what
// they point to: the prepared file is stale.
func TestPrepared_LinksAreFollowed(t *testing.T) {
	dir := t.TempDir()
	rows := "c,x,y\n" + strings.Repeat("a,1,0\nb,2,1\n", 10)
	first := datatest.Put(t, dir, "blobs/first", []byte(rows))
	second := datatest.Put(t, dir, "blobs/second", []byte(strings.ReplaceAll(rows, "a,1", "a,3")))
	link := filepath.Join(dir, "snapshot", "rows.csv")
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		t.Fatal(err)
	}
	mapping := table.Table{Client: "c", Features: []string{"x"}, Label: "y"}
	cache := filepath.Join(dir, "prepared")
	open := func(target string) (reason string) {
		t.Helper()
		_ = os.Remove(link)
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		s, reason, err := OpenPrepared(mapping, filepath.Dir(link), cache, federated.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return reason
	}
	open(first)
	if reason := open(first); reason != "" {
		t.Errorf("the same files: %s", reason)
	}
	if reason := open(second); !strings.Contains(reason, "stale") {
		t.Errorf("another snapshot: %q, want stale", reason)
	}
}

// TestPrepared_PartitionsOfOneKindDiffer prepares two partitions that differ in the number of clients.
func TestPrepared_PartitionsOfOneKindDiffer(t *testing.T) {
	dir := t.TempDir()
	path := datatest.Put(t, dir, "rows.csv", []byte("x,y\n"+strings.Repeat("1,0\n2,1\n", 30)))
	mapping := table.Table{Features: []string{"x"}, Label: "y"}
	digests := map[string]int{}
	for _, clients := range []int{5, 9} {
		o := federated.Options{Partition: federated.Partition{Kind: "iid", Clients: clients}}
		s, _, err := OpenPrepared(mapping, path, filepath.Join(dir, "prepared"), o)
		if err != nil {
			t.Fatal(err)
		}
		if s.Clients() != clients {
			t.Errorf("%d clients, want %d", s.Clients(), clients)
		}
		digests[s.Info().Digest]++
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(digests) != 2 {
		t.Errorf("5 and 9 clients have one digest: %v", digests)
	}
}
