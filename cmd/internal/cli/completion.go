package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// addCompletion adds the command "completion" to the program root, which writes the script that
// completes commands in a shell. It writes to the output that root has at that time, so that must
// be set before.
func addCompletion(root *cobra.Command) {
	name := root.Name()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		// A group refuses the names of other shells.
		Group(c)
		c.Short = "Write the completion script of a shell"
		c.Long = "Write the script that completes the program's commands, flags, keys and values in a\nshell. Each " +
			"shell's own help says how to load it."
		c.Example = "  source <(" + name + " completion bash)\n  " + name + " completion zsh --help"
		for _, shell := range c.Commands() {
			shell.Example = "  " + name + " completion " + shell.Name()
			if shell.Name() == "bash" {
				checkBash(shell)
			}
		}
	}
}

// checkBash makes the script for bash print a message where a shell lacks the package
// bash-completion, on whose functions the completion stands. Without it, each Tab would end in
// errors.
func checkBash(bash *cobra.Command) {
	write := bash.RunE
	bash.RunE = func(c *cobra.Command, args []string) error {
		if err := write(c, args); err != nil {
			return err
		}
		problem := c.Root().Name() + ": completion needs the package bash-completion, which this shell has not " +
			"loaded: install it, and load it before this script"
		_, err := fmt.Fprintf(c.Root().OutOrStdout(), `
if ! declare -F _get_comp_words_by_ref >/dev/null 2>&1; then
    echo "%s" >&2
fi
`, problem)
		return err
	}
}

// completeFromUsage gives the command c what its usage line says: how many arguments it takes, and what
// completes its arguments and flags. What the command has set already stays.
func completeFromUsage(c *cobra.Command) {
	_, arguments, _ := strings.Cut(c.Use, " ")
	word := strings.Trim(arguments, "[].")
	// Arguments that are folders are completed with the names of folders.
	takesFolder := word == "DIR" || word == "RUN" || word == "FOLDER"
	isRepeated := strings.HasSuffix(arguments, "...")
	switch {
	case !takesFolder || c.ValidArgsFunction != nil:
	case isRepeated:
		c.ValidArgsFunction = folders
	default:
		c.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveFilterDirs
		}
	}
	// The number of arguments follows from the usage line.
	switch {
	case c.Args != nil:
	case arguments == "":
		c.Args = noArguments
	case arguments == "DIR":
		c.Args = OneArgument(aRun)
	case arguments == word+"...":
		c.Args = someArguments(aRun)
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		placeholder, usage := pflag.UnquoteUsage(f)
		var completer cobra.CompletionFunc
		switch {
		case placeholder == "DIR":
			completer = folders
		case strings.Contains(usage, ".svg"):
			completer = filesOf("svg")
		case strings.HasPrefix(usage, "YAML"):
			completer = filesOf("yaml", "yml")
		}
		if _, given := c.GetFlagCompletionFunc(f.Name); completer != nil && !given {
			Complete(c, f.Name, completer)
		}
	})
}

// Complete gives a flag of the command c the function f that completes its values. It panics if c
// has no such flag, or if the flag has a function already, which are faults of the program.
func Complete(c *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic("fedpace: " + err.Error())
	}
}

// OneOf makes a flag of the command c accept only the words in list, and completes them.
func OneOf(c *cobra.Command, flag string, list ...string) {
	Check(c, flag, func(text string) error {
		if !slices.Contains(list, text) {
			return fmt.Errorf("%.40q: want one of %s", text, strings.Join(list, ", "))
		}
		return nil
	})
	Complete(c, flag, func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		fit := slices.DeleteFunc(slices.Clone(list), func(w string) bool { return !strings.HasPrefix(w, begun) })
		return fit, cobra.ShellCompDirectiveNoFileComp
	})
}

// folders completes the names of folders in the shell.
var folders = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)

// filesOf returns a function that completes names of files with these extensions, which have no
// dot.
func filesOf(extensions ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(extensions, cobra.ShellCompDirectiveFilterFileExt)
}
