package data

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"fedpace/data/datatest"
	"fedpace/data/federated"
	"fedpace/learn"
)

// windowsLEAF writes the windows of a text of each user as LEAF's script for Shakespeare does: x has 80
// characters and y the one behind them, and the next window begins one character later. The script counts
// 79 windows too many for a user of a test file, as it leaves out those that overlap training ones.
func windowsLEAF(texts map[string]string, tooMany int) []byte {
	var users, counts, data []string
	for _, user := range []string{"anna", "ben"} {
		text := texts[user]
		var x, y []string
		for i := range len(text) - federated.ShakespeareWindow {
			x = append(x, fmt.Sprintf("%q", text[i:i+federated.ShakespeareWindow]))
			y = append(y, fmt.Sprintf("%q", text[i+federated.ShakespeareWindow:i+federated.ShakespeareWindow+1]))
		}
		users = append(users, fmt.Sprintf("%q", user))
		counts = append(counts, fmt.Sprint(len(x)+tooMany))
		data = append(data, fmt.Sprintf(`%q: {"x": [%s], "y": [%s]}`, user, strings.Join(x, ","), strings.Join(y, ",")))
	}
	return fmt.Appendf(
		nil,
		`{"users": [%s], "num_samples": [%s], "user_data": {%s}}`,
		strings.Join(users, ","),
		strings.Join(counts, ","),
		strings.Join(data, ","),
	)
}

// textOf draws a text in which no eight characters stand twice: each letter is one of 62 by random.
func textOf(t *rapid.T, length int) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	var text strings.Builder
	for range length {
		text.WriteByte(letters[rapid.IntRange(0, len(letters)-1).Draw(t, "letter")])
	}
	return text.String()
}

// windowsOf are the texts of the windows in a batch, each with its label behind it.
func windowsOf(b *learn.Batch) (windows []string) {
	for i := range b.N {
		text := ""
		for _, token := range b.Tokens[i*federated.ShakespeareWindow : (i+1)*federated.ShakespeareWindow] {
			text += string(federated.ShakespeareCharacters[token])
		}
		windows = append(windows, text+string(federated.ShakespeareCharacters[b.Labels[i]]))
	}
	return windows
}

// TestLEAF_WindowsShareNoText reads LEAF's Shakespeare without test files: windows are split
// in sequence, and those between that would overlap both parts are left out, so that no character of a
// held-out window is in a training window of the same text.
func TestLEAF_WindowsShareNoText(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		texts := map[string]string{
			"anna": textOf(rt, rapid.IntRange(500, 700).Draw(rt, "length")),
			"ben":  textOf(rt, 560),
		}
		path := datatest.Put(t, dir, "all.json", windowsLEAF(texts, 0))
		s, err := Open(path, federated.Options{Task: "shakespeare"})
		if err != nil {
			rt.Fatal(err)
		}
		// The last character of a user's text that trains.
		lastTrained := map[string]int{}
		for c := range s.Clients() {
			user := s.Client(c)
			for _, window := range windowsOf(datatest.All(t, s, c)) {
				end := strings.Index(texts[user], window) + len(window)
				lastTrained[user] = max(lastTrained[user], end)
			}
		}
		for _, window := range windowsOf(datatest.HeldOut(t, s, 0, s.HeldOut())) {
			user := "anna"
			if strings.Contains(texts["ben"], window) {
				user = "ben"
			}
			if start := strings.Index(texts[user], window); start < lastTrained[user]-1 {
				rt.Fatalf("%s: a held-out window begins at %d, and training ones reach to %d", user, start, lastTrained[user])
			}
		}
		if s.HeldOut() < 20 {
			rt.Fatalf("%d held out", s.HeldOut())
		}
	})
}

// TestLEAF_NumSamplesOfScript reads test files as LEAF's script writes them, with 79 samples more in
// num_samples than there are.
func TestLEAF_NumSamplesOfScript(t *testing.T) {
	long := strings.Repeat("to be or not to be that is the question ", 4)
	dir := t.TempDir()
	datatest.Put(t, dir, "train/a.json", windowsLEAF(map[string]string{"anna": long, "ben": long}, 0))
	datatest.Put(t, dir, "test/a.json", windowsLEAF(map[string]string{"anna": long[:100], "ben": long[:90]}, 79))
	s, err := Open(dir, federated.Options{Task: "shakespeare"})
	if err != nil {
		t.Fatal(err)
	}
	// 160 characters have 80 windows; 100 have 20, and 90 have 10.
	if s.Clients() != 2 || s.Samples(0) != 80 || s.Samples(1) != 80 || s.HeldOut() != 30 {
		t.Errorf("%d clients, %d and %d samples, %d held out", s.Clients(), s.Samples(0), s.Samples(1), s.HeldOut())
	}
}

// TestLEAF_EmptyUserOfScript reads a test file in which all windows of a user overlap training ones, so that
// LEAF's script has left them out, but counted them.
func TestLEAF_EmptyUserOfScript(t *testing.T) {
	long := strings.Repeat("to be or not to be that is the question ", 4)
	dir := t.TempDir()
	datatest.Put(t, dir, "train/a.json", windowsLEAF(map[string]string{"anna": long, "ben": long}, 0))
	datatest.Put(t, dir, "test/a.json", windowsLEAF(map[string]string{"anna": long[:100], "ben": long[:70]}, 12))
	s, err := Open(dir, federated.Options{Task: "shakespeare"})
	if err != nil {
		t.Fatal(err)
	}
	// 100 characters have 20 windows; 70 have none.
	if s.Clients() != 2 || s.Samples(1) != 80 || s.HeldOut() != 20 {
		t.Errorf("%d clients, %d samples, %d held out", s.Clients(), s.Samples(1), s.HeldOut())
	}
}

// TestLEAF_ShortRolesAreTold has two users, one of whose windows are too few to be split with a gap between
// the parts, and then both.
func TestLEAF_ShortRolesAreTold(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("abcdefghij", 100)
	// 1,000 characters have 920 windows, and 380 have 300.
	path := datatest.Put(t, dir, "all.json", windowsLEAF(map[string]string{"anna": long, "ben": long[:380]}, 0))
	s, err := Open(path, federated.Options{Task: "shakespeare"})
	if err != nil {
		t.Fatal(err)
	}
	const note = "1 clients with too few samples for two parts left out, with 300 samples"
	if s.Clients() != 1 || !strings.Contains(s.Info().Note, note) {
		t.Errorf("%d clients, %q", s.Clients(), s.Info().Note)
	}
	path = datatest.Put(t, dir, "none.json", windowsLEAF(map[string]string{"anna": long[:380], "ben": long[:380]}, 0))
	_, err = Open(path, federated.Options{Task: "shakespeare"})
	if err == nil || !strings.Contains(err.Error(), "no client has enough samples for two parts, of 600 samples of 2 clients") {
		t.Error(err)
	}
}
