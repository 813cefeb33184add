package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fedpace/internal/names"
)

// Check has a flag refuse values when it is read.
func Check(c *cobra.Command, flag string, check func(text string) error) {
	f := c.Flags().Lookup(flag)
	f.DefValue = strings.Replace(f.DefValue, "[]", "", 1) // which help does not show
	f.Value = &checkedValue{f.Value, func(text string) error {
		if err := check(text); err != nil {
			return refusedError{fmt.Errorf("--%s: %w", flag, err)}
		}
		return nil
	}}
}

// CheckRun has --run refuse names that no NATS subject could hold.
func CheckRun(c *cobra.Command) {
	Check(c, "run", func(text string) error { return names.CheckToken("run", text) })
}

// InRange has a flag refuse numbers outside a range.
func InRange(c *cobra.Command, flag string, lo, hi float64) {
	limit(c, flag, func(v float64) bool { return v >= lo && v <= hi }, fmt.Sprintf("%v to %.0f", lo, hi))
}

// Positive has flags refuse numbers that are not above 0.
func Positive(c *cobra.Command, flags ...string) {
	for _, flag := range flags {
		limit(c, flag, func(v float64) bool { return v > 0 }, "more than 0")
	}
}

// limit has a number flag refuse values that are not allowed. want ends the message and says
// which are.
func limit(c *cobra.Command, flag string, allowed func(float64) bool, want string) {
	f := c.Flags().Lookup(flag)
	number := f.Value
	f.Value = &checkedValue{number, func(string) error {
		if v, err := strconv.ParseFloat(number.String(), 64); err == nil && !allowed(v) {
			return refusedError{fmt.Errorf("--%s %v: want %s", flag, number, want)}
		}
		return nil
	}}
}

// checkedValue is a flag's value that is checked once it is read.
type checkedValue struct {
	pflag.Value
	check func(text string) error
}

// Set sets the value and then checks the text, so that a value that cannot be parsed keeps
// pflag's own message.
func (v *checkedValue) Set(text string) error {
	if err := v.Value.Set(text); err != nil {
		return err
	}
	return v.check(text)
}

// refusedError is the whole message about a value that a check refused.
type refusedError struct{ error }
