package reference

import (
	"strings"
	"testing"
)

// The options that all policies in Python share are explained in the first of their tables, and the
// entries of the others name them and lead there.
func TestPage_SharedOptions(t *testing.T) {
	text := string(Page())
	if n := strings.Count(text, "\n|`memory_mb: 2048` ("); n != 1 {
		t.Errorf("memory_mb is explained %d times", n)
	}
	const named = "`path`, `class`, `arguments`, `answer_seconds`, `memory_mb` [of above](#way-to-choose-clients-select)"
	if n := strings.Count(text, named); n != 5 {
		t.Errorf("%d entries lead to the options of a policy, want 5", n)
	}
	if !strings.Contains(text, "\n## Way to choose clients: `select`\n") {
		t.Error("the table that they lead to is not there")
	}
}
