package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fedpace/internal/names"
)

// Check makes a flag of the command c refuse values when they are read. check returns an error for
// a value, of which the text is given, that is not allowed.
func Check(c *cobra.Command, flag string, check func(text string) error) {
	f := c.Flags().Lookup(flag)
	// Help would show the empty list of a slice as a default.
	f.DefValue = strings.Replace(f.DefValue, "[]", "", 1)
	f.Value = &checkedValue{f.Value, func(text string) error {
		if err := check(text); err != nil {
			return refusedError{fmt.Errorf("--%s: %w", flag, err)}
		}
		return nil
	}}
}

// CheckRun makes the flag --run of the command c refuse names that no NATS subject could hold.
func CheckRun(c *cobra.Command) {
	Check(c, "run", func(text string) error { return names.CheckToken("run", text) })
}

// InRange makes a flag of the command c refuse numbers below lo or above hi.
func InRange(c *cobra.Command, flag string, lo, hi float64) {
	refuseUnless(c, flag, func(v float64) bool { return v >= lo && v <= hi }, fmt.Sprintf("%v to %.0f", lo, hi))
}

// Positive makes flags of the command c refuse numbers that are 0 or less.
func Positive(c *cobra.Command, flags ...string) {
	for _, flag := range flags {
		refuseUnless(c, flag, func(v float64) bool { return v > 0 }, "more than 0")
	}
}

// refuseUnless makes a number flag of the command c refuse values for which allowed is false. want ends
// the message and says which values are allowed.
func refuseUnless(c *cobra.Command, flag string, allowed func(float64) bool, want string) {
	f := c.Flags().Lookup(flag)
	number := f.Value
	f.Value = &checkedValue{number, func(string) error {
		// What is no number has been refused by the flag itself.
		if v, err := strconv.ParseFloat(number.String(), 64); err == nil && !allowed(v) {
			return refusedError{fmt.Errorf("--%s %v: want %s", flag, number, want)}
		}
		return nil
	}}
}

// checkedValue is the value of a flag that is checked once it is read.
type checkedValue struct {
	pflag.Value
	// check returns an error if the value, of which it gets the text, is not allowed.
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
