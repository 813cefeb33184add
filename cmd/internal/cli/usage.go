package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fedpace/internal/names"
)

// UsageError is the error of a command line that cannot be understood.
type UsageError struct {
	// Command is the path of the command without the program's name, with a space behind it; empty
	// for the program itself.
	Command string
	// Problem is what is wrong with the command line.
	Problem error
}

// Error implements error.
func (e UsageError) Error() string { return e.Problem.Error() }

// Unwrap returns the problem behind the usage error, for errors.Is and errors.As.
func (e UsageError) Unwrap() error { return e.Problem }

// Usage marks err as an error of the command line of c, which makes the exit status ExitUsage and
// names the help in the message. A nil err stays nil.
func Usage(c *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	command := strings.TrimPrefix(c.CommandPath()+" ", c.Root().Name()+" ")
	return UsageError{command, err}
}

// Prepare gives the command c and all commands below it what their usage lines say of their
// arguments, and turns what cobra finds wrong with a command line into a usage error.
func Prepare(c *cobra.Command) {
	completeFromUsage(c)
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return Usage(c, flagError(c, err)) })
	if args := c.Args; args != nil {
		c.Args = func(c *cobra.Command, given []string) error {
			if err := args(c, given); err != nil {
				return Usage(c, err)
			}
			return nil
		}
	}
	for _, below := range c.Commands() {
		Prepare(below)
	}
}

// flagError improves the error err that a flag of the command c has caused: it says what kind of
// value a flag takes, and which flag, command or key of the configuration a mistyped flag may have
// meant.
func flagError(c *cobra.Command, err error) error {
	// A check of our own has written the whole message.
	if refused := (refusedError{}); errors.As(err, &refused) {
		return refused
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		kind := map[string]string{
			"int":      "a whole number",
			"float64":  "a number",
			"bool":     "true or false",
			"duration": "a time, such as 30s",
		}[invalid.GetFlag().Value.Type()]
		if kind != "" {
			return fmt.Errorf("--%s: %q is not %s", invalid.GetFlag().Name, invalid.GetValue(), kind)
		}
		return err
	}
	// What follows is about flags that do not exist.
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || unknown.GetSpecifiedShortnames() != "" {
		return err
	}
	name := unknown.GetSpecifiedName()
	var flags []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			flags = append(flags, f.Name)
		}
	})
	nearest := names.Nearest(name, flags)
	withFlag, many := commandsWithFlag(c, name)
	key := intendedKey(c, name)
	// The guesses are tried from the surest to the vaguest.
	switch {
	case len(withFlag) > 0 && !many:
		return fmt.Errorf("%w (write %s)", err, strings.Join(withFlag, " or "))
	case nearest != "":
		return fmt.Errorf("%w (did you mean --%s?)", err, nearest)
	case many:
		return fmt.Errorf("%w (write it after a command, as %s)", err, withFlag[0])
	case strings.Contains(name, "epoch") && key != "":
		return fmt.Errorf("%w (did you mean --set schedule.unit=epochs --set %s=VALUE?)", err, key)
	case key != "":
		return fmt.Errorf("%w (did you mean --set %s=VALUE?)", err, key)
	}
	return err
}

// commandsWithFlag returns the commands below group that have a flag of this name, or the one command that
// has the name itself, as they are written on a command line. If there are more than two, which a sentence
// should not list, many is true and the first is run if that is one of them.
func commandsWithFlag(group *cobra.Command, flag string) (list []string, many bool) {
	for _, c := range group.Commands() {
		if !c.IsAvailableCommand() {
			continue
		}
		if c.Name() == flag {
			return []string{c.CommandPath()}, false
		}
		if f := c.Flags().Lookup(flag); f != nil && !f.Hidden {
			list = append(list, c.CommandPath()+" --"+flag)
			if c.Name() == "run" {
				list[0], list[len(list)-1] = list[len(list)-1], list[0]
			}
		}
	}
	return list, len(list) > 2
}

// intendedKey returns the key of the configuration that a mistyped flag may mean, out of the keys that
// the command's --set takes, as the completion of that flag knows them. It is the key of this name,
// the one that other tools call so, the key of a group (stop and schedule first) that ends in the
// name, or the one that is spelt most alike. It is empty if the command has no --set, or no key is
// near.
func intendedKey(c *cobra.Command, name string) string {
	complete, ok := c.GetFlagCompletionFunc("set")
	if !ok {
		return ""
	}
	// Flags have hyphens where keys have underscores.
	name = strings.ReplaceAll(name, "-", "_")
	completions, _ := complete(c, nil, "")
	keys := make([]string, len(completions))
	for i, completion := range completions {
		keys[i], _, _ = strings.Cut(completion, "=")
	}
	for _, candidate := range []string{name, names.CommonKey(name), "stop." + name, "schedule." + name} {
		if slices.Contains(keys, candidate) {
			return candidate
		}
	}
	inGroup := func(key string) bool { return strings.HasSuffix(key, "."+name) }
	if i := slices.IndexFunc(keys, inGroup); i >= 0 {
		return keys[i]
	}
	return names.Nearest(name, keys)
}

// commandError returns the error for a name that no command below c has, with the command that may
// have been meant.
func commandError(c *cobra.Command, name string) error {
	var commands []string
	for _, below := range c.Commands() {
		if below.IsAvailableCommand() || below.Name() == "help" {
			commands = append(append(commands, below.Name()), below.Aliases...)
		}
	}
	err := fmt.Errorf("unknown command %q for %q", name, c.CommandPath())
	if near := names.Nearest(name, commands); near != "" {
		return fmt.Errorf("%w (did you mean %s?)", err, near)
	}
	return err
}

// Group makes c a command that only holds the commands below it and returns it. Without a command,
// it prints its help; an unknown name is an error that says which one may have been meant.
func Group(c *cobra.Command, below ...*cobra.Command) *cobra.Command {
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return commandError(c, args[0])
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	c.AddCommand(below...)
	return c
}

// noArguments refuses arguments, for commands that take flags alone. If the argument is a
// configuration file, the error suggests --config.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	if ext := filepath.Ext(args[0]); c.Flags().Lookup("config") != nil && (ext == ".yaml" || ext == ".yml") {
		hint = fmt.Sprintf(" (did you mean --config %s?)", args[0])
	}
	return fmt.Errorf("%s takes no argument, found %q%s", c.CommandPath(), args[0], hint)
}

// aRun is the argument of the commands that are about runs.
const aRun = "the folder of a run, such as runs/demo"

// someArguments returns a check of the arguments that demands one or more. argument says what they
// are, for the message.
func someArguments(argument string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("found no argument, want at least one: %s", argument)
		}
		return nil
	}
}

// OneArgument returns a check of the arguments that demands exactly one. argument says what it is,
// for the message.
func OneArgument(argument string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("found %d arguments, want one: %s", len(args), argument)
		}
		return nil
	}
}
