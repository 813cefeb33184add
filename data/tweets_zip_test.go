package data

import (
	"archive/zip"
	"bytes"
	"fmt"
	"strings"
	"testing"

	"fedpace/data/datatest"
	"fedpace/data/federated"
)

// zipHolding makes a zip of named contents, in pairs.
func zipHolding(t testing.TB, pairs ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(pairs); i += 2 {
		w, err := z.Create(pairs[i])
		if err == nil {
			_, err = w.Write([]byte(pairs[i+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The zip that Sentiment140 is published as is the set of its training CSV.
func TestTweets_Zipped(t *testing.T) {
	var lines []string
	for i := range 40 {
		lines = append(lines, tweet("4", fmt.Sprint("user", i%3), fmt.Sprintf("a b%d", i%7)))
	}
	csv := string(csvOf(lines...))
	dir := t.TempDir()
	plain := mustOpen(t, datatest.Put(t, dir, "t.csv", []byte(csv)), federated.Options{Seed: 1})
	archive := zipHolding(t, "testdata.manual.2009.06.14.csv", "\"2\",\"neutral\"\n", "training.1600000.processed.noemoticon.csv", csv)
	datatest.SameSets(t, plain, mustOpen(t, datatest.Put(t, dir, "trainingandtestdata.zip", archive), federated.Options{Seed: 1}))

	for name, c := range map[string]struct {
		zip  []byte
		want string
	}{
		"cut":      {archive[:len(archive)/2], "truncated or damaged zip"},
		"no tweet": {zipHolding(t, "training.csv", ""), "training.csv: no tweet"},
		"bad line": {zipHolding(t, "training.csv", "\"7\",1,2,3,4,5\n"), "training.csv: line 1: polarity \"7\""},
		"neither":  {zipHolding(t, "test.csv", csv), "the zip holds [\"test.csv\"]"},
	} {
		if _, err := Open(datatest.Put(t, dir, "x.zip", c.zip), federated.Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s", name, err, c.want)
		}
	}
}
