package dataset

import (
	"os/exec"
	"testing"

	"fedpace/internal/testkit/installed"
)

// A shell reads a word in quotes as it was.
func TestShellWord_Quotes(t *testing.T) {
	shell := installed.Program(t, "sh", "dash")
	for word, want := range map[string]string{
		"data/own.csv":  "data/own.csv",
		"synthetic:x":   "synthetic:x",
		"my data.csv":   "'my data.csv'",
		"it's $HOME;ls": `'it'\''s $HOME;ls'`,
		"":              "''",
	} {
		quoted := shellWord(word)
		if quoted != want {
			t.Errorf("%q is %s, want %s", word, quoted, want)
		}
		out, err := exec.Command(shell, "-c", "printf %s "+quoted).Output()
		if err != nil || string(out) != word {
			t.Errorf("a shell reads %s as %q (%v), want %q", quoted, out, err, word)
		}
	}
}
