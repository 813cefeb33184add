package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// addCompletion makes the command that writes a shell's completion script. It
// writes to what is the root's output by now.
func addCompletion(root *cobra.Command) {
	name := root.Name()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Short = "Write the completion script of a shell"
		c.Long = "Write the script that completes the program's commands, flags, keys and values in a\nshell. Each shell's own help says how to load it."
		c.Example = "  source <(" + name + " completion bash)\n  " + name + " completion zsh --help"
		for _, shell := range c.Commands() {
			shell.Example = "  " + name + " completion " + shell.Name()
		}
	}
}

// Complete gives a flag its completer; the flag must be there.
func Complete(c *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic("fedpace: " + err.Error())
	}
}

// Words completes one of a few.
func Words(list ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		fit := slices.DeleteFunc(slices.Clone(list), func(w string) bool { return !strings.HasPrefix(w, begun) })
		return fit, cobra.ShellCompDirectiveNoFileComp
	}
}

// Folders completes names of folders.
var Folders = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)

// FilesOf completes names of files with these extensions.
func FilesOf(extensions ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(extensions, cobra.ShellCompDirectiveFilterFileExt)
}

// OneFolder completes a command's one argument, a folder.
func OneFolder(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveFilterDirs
}
