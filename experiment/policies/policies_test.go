//go:build unix

package policies

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/schedule"
	"fedpace/internal/testkit/installed"
)

// needsPython skips a test where the policies' interpreter is missing.
func needsPython(t testing.TB) {
	t.Helper()
	installed.Program(t, "python3", "python3")
}

// write writes a policy's file and returns its path.
func write(t testing.TB, source string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mine.py")
	if err := os.WriteFile(path, []byte(source), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// bound opens the policies of a configuration with a schedule of K in a file.
func bound(t testing.TB, source, more string, notice func(string)) (*config.Config, *Set, error) {
	t.Helper()
	needsPython(t)
	c, err := config.Load("", []string{
		"task=femnist",
		"schedule.k={rule: python, path: " + write(t, source) + more + "}",
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), &c, notice)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &c, s, err
}

// localSteps is a file with a policy of the given body.
func localSteps(body string) string {
	return "import os, sys, time\nimport fedpace\n\nclass Mine(fedpace.LocalSteps):\n" +
		"    def local_steps(self, now):\n        " + strings.ReplaceAll(body, "\n", "\n        ") + "\n"
}

// What is wrong with a policy's file or class is found when it is opened, with the place.
func TestOpen_Mistakes(t *testing.T) {
	for name, test := range map[string]struct{ source, more, want string }{
		"no class":        {"import fedpace\n", "", "one class of the base class fedpace.LocalSteps is wanted, and there are 0"},
		"another kind":    {"import fedpace\nclass C(fedpace.Closing): pass\n", "", "fedpace.LocalSteps is wanted, and there are 0"},
		"two classes":     {localSteps("return 1") + "class Other(Mine): pass\n", "", "one class of the base class fedpace.LocalSteps is wanted, and there are 2"},
		"a wrong name":    {localSteps("return 1"), ", class: Yours", "the class Yours"},
		"syntax":          {"import fedpace\nclass C(:\n", "", "line 2: SyntaxError"},
		"import":          {"import no_such_module_anywhere\n", "", "line 1: ModuleNotFoundError: No module named 'no_such_module_anywhere'"},
		"argument":        {localSteps("return 1"), ", arguments: n=3", "TypeError"},
		"words":           {localSteps("return 1"), ", arguments: 3 + os", "want names with values, such as n=3, share=0.5"},
		"end of process":  {"import os\nprint('so it ends')\nos._exit(3)\n", "", "it ended: exit status 3; it printed last: so it ends"},
		"memory":          {"x = bytearray(900 << 20)\n", ", memory_mb: 200", "MemoryError"},
		"a text for code": {"import json\nraise ValueError('not\\nso')\n", "", "line 2: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := bound(t, test.source, test.more, nil)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "schedule.k: policy ") {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

// What a policy does wrong when it is asked ends the run with its name and line, and its schedule answers
// K_0 until then.
func TestAsk_Faults(t *testing.T) {
	for name, test := range map[string]struct{ body, more, want string }{
		"exception":         {"return 1 / 0", "", "line 6: ZeroDivisionError: division by zero"},
		"None":              {"pass", "", "local_steps: it returned None"},
		"a text":            {"return 'many'", "", `local_steps: "many" is no answer`},
		"not finite":        {"return float('nan')", "", "Out of range float values are not JSON compliant"},
		"zero":              {"return 0", "", "local_steps: 0 is no number of local steps (1 to 1073741824)"},
		"it is kept":        {"self.rounds = now.round\nreturn 3", "", "a policy keeps nothing between two questions"},
		"silence":           {"time.sleep(60)", ", answer_seconds: 0.2", "it has not answered for 200ms, and was killed"},
		"death":             {"os._exit(7)", "", "it ended: exit status 7; it printed nothing (3 processes died at one question)"},
		"a long answer":     {"return '1' * (2 << 20)", "", "an answer is longer than 1048576 bytes"},
		"a line of its own": {"os.write(4, b'{}\\n')\nreturn 3", "", "is no reply to request"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, s, err := bound(t, localSteps(test.body), test.more, nil)
			if err != nil {
				t.Fatal(err)
			}
			k := c.Schedule.K.LocalSteps(schedule.Progress{Setup: schedule.Setup{K0: 8}, Round: 1})
			err = s.Err()
			if k != 8 || err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("K is %d, %v, want %q", k, err, test.want)
			}
			if again := c.Schedule.K.LocalSteps(schedule.Progress{Setup: schedule.Setup{K0: 9}, Round: 2}); again != 9 {
				t.Errorf("after its failure K is %d", again)
			}
		})
	}
}

// A process that dies now and then is started again, and what it prints is shown.
func TestAsk_DiesOnce(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	var lines []string
	c, s, err := bound(t, localSteps("if not os.path.exists('"+mark+"'):\n    open('"+mark+"', 'w').close()\n"+
		"    print('I die', flush=True)\n    os._exit(1)\nreturn 5"), "", func(line string) { lines = append(lines, line) })
	if err != nil {
		t.Fatal(err)
	}
	k := c.Schedule.K.LocalSteps(schedule.Progress{Setup: schedule.Setup{K0: 8}, Round: 1})
	said := strings.Join(lines, "\n")
	if k != 5 || s.Err() != nil || !strings.Contains(said, "Policy mine.py: I die") || !strings.Contains(said, "It is started again.") {
		t.Errorf("K is %d, %v, told %q", k, s.Err(), said)
	}
}

// A closing rule is asked once for equal questions, and the record has them.
func TestAsk_AnswersAreKept(t *testing.T) {
	needsPython(t)
	c, err := config.Load("", []string{"task=femnist", "close={rule: python, path: " + write(t,
		"import fedpace\nclass C(fedpace.Closing):\n    def close(self, now):\n        print('asked', flush=True)\n"+
			"        return now.accepted > 1\n") + "}"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), &c, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var record strings.Builder
	s.Record(&record)
	// A forecast asks without a record.
	c.Close.Close(closing.Standing{Cohort: 3, Tasks: 3, Accepted: 9})
	c.Close = Recorded(c.Close)
	for range 5 {
		for accepted := range 4 {
			closes := c.Close.Close(closing.Standing{Cohort: 3, Tasks: 3, Accepted: accepted})
			if closes != (accepted > 1) {
				t.Errorf("with %d updates: %v", accepted, closes)
			}
		}
	}
	if n := strings.Count(record.String(), "\n"); n != 3 { // the rule is not asked without any update
		t.Errorf("%d decisions:\n%s", n, record.String())
	}
}

// A decision that stands in the record of an earlier attempt is not asked again.
func TestRemember(t *testing.T) {
	c, s, err := bound(t, localSteps("return 5"), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	var record strings.Builder
	s.Record(&record)
	c.Schedule.K = Recorded(c.Schedule.K)
	first := schedule.Progress{Setup: schedule.Setup{K0: 8}, Round: 1}
	if k := c.Schedule.K.LocalSteps(first); k != 5 || s.Err() != nil {
		t.Fatalf("%d, %v", k, s.Err())
	}
	dir := t.TempDir()
	// An earlier process has answered otherwise, and its last line is torn.
	text := strings.Replace(record.String(), `"answer":5`, `"answer":3`, 1) + `{"policy":"sched`
	if err := os.WriteFile(filepath.Join(dir, File), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	c, s, err = bound(t, localSteps("return 5"), "", nil)
	if err != nil || s.Remember(dir) != nil {
		t.Fatal(err)
	}
	second := first
	second.Round = 2
	if k, next := c.Schedule.K.LocalSteps(first), c.Schedule.K.LocalSteps(second); k != 3 || next != 5 {
		t.Errorf("K is %d and %d, want the recorded 3 and a new 5", k, next)
	}
}

// Verify finds policies that are no functions, whatever the reason.
func TestVerify(t *testing.T) {
	for name, test := range map[string]struct {
		body string
		is   bool
	}{
		"a function":          {"return now.round + 1", true},
		"a clock":             {"return 1 + time.time() % 1", false},
		"numbers by chance":   {"import random\nreturn 1 + random.random()", false},
		"something kept":      {"counts.append(1)\nreturn len(counts)", false},
		"the order of a set":  {"return 1 + list({'a', 'b', 'c', 'd', 'e', 'f', 'g'}).index('a')", false},
		"equal numbers apart": {"return float(now.round + 1)", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, s, err := bound(t, "counts = []\n"+localSteps(test.body), "", nil)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			f, err := os.Create(filepath.Join(dir, File))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			s.Record(f)
			c.Schedule.K = Recorded(c.Schedule.K)
			for round := range 5 {
				c.Schedule.K.LocalSteps(schedule.Progress{Setup: schedule.Setup{K0: 8}, Round: round + 1})
			}
			fresh := *c
			v, err := Verify(context.Background(), dir, &fresh)
			if err != nil || s.Err() != nil {
				t.Fatal(err, s.Err())
			}
			if (v.Difference == "") != test.is || test.is && v.Asked != 5 {
				t.Errorf("%+v", v)
			}
		})
	}
}
