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

// UsageError is a command line that cannot be understood.
type UsageError struct {
	// With a space behind it, or empty.
	Command string
	Problem error
}

// Error implements error.
func (e UsageError) Error() string { return e.Problem.Error() }

// Unwrap gives the problem behind the usage error, for errors.Is and errors.As.
func (e UsageError) Unwrap() error { return e.Problem }

// Usage marks an error as one of the command line; nil stays.
func Usage(c *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	command := strings.TrimPrefix(c.CommandPath()+" ", c.Root().Name()+" ")
	return UsageError{command, err}
}

// Prepare gives a command, and those below it, what its usage says of its arguments, and makes
// what cobra finds wrong with a command line an error of usage.
func Prepare(c *cobra.Command) {
	complete(c)
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

// flagError says which flag a mistyped one may have meant.
func flagError(c *cobra.Command, err error) error {
	if refused := (refusedError{}); errors.As(err, &refused) {
		return refused
	}
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		kind := map[string]string{
			"int":      "a whole number",
			"float64":  "a number",
			"bool":     "true or false",
			"duration": "a time, such as 30s",
		}[wrong.GetFlag().Value.Type()]
		if kind != "" {
			return fmt.Errorf("--%s: %q is not %s", wrong.GetFlag().Name, wrong.GetValue(), kind)
		}
		return err
	}
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
	near := names.Nearest(name, flags)
	below := belowWith(c, name)
	key := keyOf(c, name)
	switch {
	case below != nil:
		return fmt.Errorf("%w (write %s)", err, strings.Join(below, " or "))
	case near != "":
		return fmt.Errorf("%w (did you mean --%s?)", err, near)
	case strings.Contains(name, "epoch") && key != "":
		return fmt.Errorf("%w (did you mean --set schedule.unit=epochs --set %s=VALUE?)", err, key)
	case key != "":
		return fmt.Errorf("%w (did you mean --set %s=VALUE?)", err, key)
	}
	return err
}

// belowWith are the commands below one that a flag goes with, or the one of that name, of
// those that help lists; nil where they are more than a sentence should list.
func belowWith(group *cobra.Command, flag string) (list []string) {
	for _, c := range group.Commands() {
		if !c.IsAvailableCommand() {
			continue
		}
		if c.Name() == flag {
			return []string{c.CommandPath()}
		}
		if f := c.Flags().Lookup(flag); f != nil && !f.Hidden {
			list = append(list, c.CommandPath()+" --"+flag)
		}
	}
	if len(list) > 2 {
		return nil
	}
	return list
}

// keyOf returns the key of the configuration that a mistyped flag may mean, among those that
// the command's --set takes: the completion of that flag knows them. It is the key of this name,
// the one that other tools call so, the key of a group (stop and schedule first) that ends in the
// name, or the one that is spelt most alike; empty where the command has no --set, or no key is near.
func keyOf(c *cobra.Command, name string) string {
	complete, ok := c.GetFlagCompletionFunc("set")
	if !ok {
		return ""
	}
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

// commandError says that no command below c has a name, and which one it may have
// meant.
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

// Group makes c a command that only holds those below it.
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

// none refuses arguments, for commands that take flags alone. A configuration file given as an
// argument is answered with --config.
func none(c *cobra.Command, args []string) error {
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

// some demands one argument or more.
func some(argument string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("found no argument, want at least one: %s", argument)
		}
		return nil
	}
}

// OneArgument demands one argument.
func OneArgument(argument string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("found %d arguments, want one: %s", len(args), argument)
		}
		return nil
	}
}
