package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fedpace/coordinator/schedule"
	"fedpace/experiment/config"
)

// addCompletion makes the command that writes a shell's completion script. It
// writes to what is the root's output by now.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Short = "Write the completion script of a shell"
		c.Long = "Write the script that completes fedpace's commands, flags, keys and values in a\nshell. Each shell's own help says how to load it."
		c.Example = "  source <(fedpace completion bash)\n  fedpace completion zsh --help"
		for _, shell := range c.Commands() {
			shell.Example = "  fedpace completion " + shell.Name()
		}
	}
}

// completer completes a flag's value. The directive says what the shell does
// with it.
type completer = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// complete gives a flag its completer; the flag must be there.
func complete(c *cobra.Command, flag string, f completer) {
	if err := c.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic("fedpace: " + err.Error())
	}
}

// words completes one of a few.
func words(list ...string) completer {
	return func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		fit := slices.DeleteFunc(slices.Clone(list), func(w string) bool { return !strings.HasPrefix(w, begun) })
		return fit, cobra.ShellCompDirectiveNoFileComp
	}
}

// folders completes names of folders.
func folders(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// filesOf completes names of files with these extensions.
func filesOf(extensions ...string) completer {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return extensions, cobra.ShellCompDirectiveFilterFileExt
	}
}

// assignments complete key=value: first the key, from the table of keys, then
// its value where the key knows words.
func assignments(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	key, value, chosen := strings.Cut(begun, "=")
	var list []string
	for _, k := range config.KnownKeys() {
		switch {
		case !chosen && strings.HasPrefix(k.Key, key):
			list = append(list, cobra.CompletionWithDesc(k.Key+"=", k.Help))
		case chosen && k.Key == key:
			for _, w := range k.Words {
				if strings.HasPrefix(w, value) {
					list = append(list, key+"="+w)
				}
			}
			if slices.Contains(paths, key) {
				return list, cobra.ShellCompDirectiveDefault
			}
		}
	}
	if !chosen {
		return list, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

// paths are the keys that hold the name of a file or folder.
var paths = []string{"data", "init", "out", "network.links", "compute.measured"}

// scheduleList completes names of schedules, separated by commas, each once.
func scheduleList(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	given, last := "", begun
	if i := strings.LastIndex(begun, ","); i >= 0 {
		given, last = begun[:i+1], begun[i+1:]
	}
	var list []string
	for _, name := range schedule.Names() {
		if strings.HasPrefix(name, last) && !slices.Contains(strings.Split(given, ","), name) {
			list = append(list, given+name)
		}
	}
	return list, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}

// runFolder completes a command's one argument, a folder.
func runFolder(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveFilterDirs
}
