package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fedpace/coordinator/closing"
)

func loadText(t *testing.T, text string) (Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	c, err := Load(path, nil)
	if err != nil {
		err = &KeyError{Key: strings.TrimPrefix(err.Error(), filepath.Dir(path)+string(filepath.Separator))}
	}
	return c, err
}

// Which of two values was meant is not guessed.
func TestKeys_SetOnce(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"schedule.k: fixed\nschedule: {k: rounds}\n", "config.yaml:2: schedule.k: is set already, at "},
		{"schedule:\n  k: rounds\nschedule.k: fixed\n", "config.yaml:3: schedule.k: is set already, at "},
		{"select: uniform\nselect.rule: fit\n", "config.yaml:2: select.rule: is set already, at "},
		{"close: {rule: first, n: 3}\nclose.n: null\n", "config.yaml:2: close.n: is set already, at "},
	} {
		if _, err := loadText(t, test.text); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%q: %v, want %s", test.text, err, test.want)
		}
	}
	// What follows from a rule's word is not set by the user.
	c, err := loadText(t, "close: first\nclose.n: 3\nschedule.k: fixed\nschedule: {k0: 5}\n")
	if err != nil || c.Close != closing.Rule(closing.First{N: 3}) || c.Schedule.K0 != 5 {
		t.Errorf("%+v, %v", c.Close, err)
	}
}

// What sets an entry's options may stand before its name, and a later name takes back the earlier
// entry's options.
func TestSets_Entry(t *testing.T) {
	for _, test := range []struct {
		sets  []string
		close closing.Rule
	}{
		{[]string{"close=first", "close.n=3"}, closing.First{N: 3}},
		{[]string{"close.n=3", "close=first"}, closing.First{N: 3}},
		{[]string{"close.n=3", "aggregate.mu=0.1", "close.rule=first", "aggregate.algorithm=fedprox"}, closing.First{N: 3}},
		{[]string{"close=first", "close.n=3", "close=deadline", "close.seconds=5"}, closing.Deadline{Seconds: 5}},
		{[]string{"close={rule: first, n: 5}", "close.n=3"}, closing.First{N: 3}},
		{[]string{"close=first", "close.n=3", "close=all"}, closing.All{}},
	} {
		if c, err := Load("", test.sets); err != nil || c.Close != test.close {
			t.Errorf("%v: %+v, %v", test.sets, c.Close, err)
		}
	}
}

func TestLoad_ByteOrderMark(t *testing.T) {
	if c, err := loadText(t, "\ufeffseed: 7\n"); err != nil || c.Seed != 7 {
		t.Errorf("seed %d, %v", c.Seed, err)
	}
	if _, err := loadText(t, "\ufeff"); err != nil {
		t.Error(err)
	}
}

// Help and completion offer what has an effect.
func TestKeys_HaveEffect(t *testing.T) {
	words := map[string][]string{}
	for _, k := range KnownKeys() {
		words[k.Name] = k.Offered()
	}
	for key, want := range map[string]string{"task": "femnist", "train": "false", "clients": "all", "schedule.k": "rounds", "close": "first"} {
		if !slices.Contains(words[key], want) {
			t.Errorf("%s does not offer %s: %v", key, want, words[key])
		}
	}
}
