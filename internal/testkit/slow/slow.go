package slow

import (
	"flag"
	"os"
	"strconv"
	"testing"
	"time"
)

// Switch is the environment variable that has tests take long.
const Switch = "FEDPACE_LONG"

// On reports whether tests may take long.
func On() bool { return os.Getenv(Switch) != "" }

// Test skips a test that takes long for the reason given, unless the switch is on.
func Test(t testing.TB, reason string) {
	t.Helper()
	if !On() {
		t.Skipf("%s: set %s=1, as .ci/long does", reason, Switch)
	}
}

// Patience returns how long a test may wait for something: the time that is left until the deadline of all tests, less
// ten seconds in which to report what did not come. Without a deadline it is an hour. However busy the machine is,
// what comes at all comes in that time.
func Patience(t testing.TB) time.Duration {
	if limited, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, ok := limited.Deadline(); ok {
			return time.Until(end) - 10*time.Second
		}
	}
	return time.Hour
}

// NotUnderRace skips a test that the race detector need not see: its goroutines are those
// of other tests, and its calculations would only take longer.
func NotUnderRace(t testing.TB) {
	t.Helper()
	if race {
		t.Skip("go test without -race plays it: it starts no goroutines that other tests do not start, and would " +
			"only take longer here")
	}
}

// Beside has up to n parallel tests of a package run at once: they wait more than they
// compute. TestMain calls it; -parallel, where given, is parsed later.
func Beside(n int) {
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}
