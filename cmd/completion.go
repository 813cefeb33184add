package cmd

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fedpace/coordinator/schedule"
	"fedpace/experiment/config"
)

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
			if k.IsPath {
				return list, cobra.ShellCompDirectiveDefault
			}
		}
	}
	if !chosen {
		return list, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

// scheduleList completes names of schedules, separated by commas, each once.
func scheduleList(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	given := begun[:strings.LastIndex(begun, ",")+1]
	var list []string
	for _, name := range schedule.Names() {
		if strings.HasPrefix(given+name, begun) && !slices.Contains(strings.Split(given, ","), name) {
			list = append(list, given+name)
		}
	}
	return list, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}
