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
	key, _, chosen := strings.Cut(begun, "=")
	list, directive := []string(nil), cobra.ShellCompDirectiveNoFileComp
	if !chosen {
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	for _, k := range config.KnownKeys() {
		switch {
		case !chosen && strings.HasPrefix(k.Key, key):
			list = append(list, cobra.CompletionWithDesc(k.Key+"=", k.Help))
		case chosen && k.Key == key:
			for _, w := range k.Words {
				if w = key + "=" + w; strings.HasPrefix(w, begun) {
					list = append(list, w)
				}
			}
			if k.IsPath {
				directive = cobra.ShellCompDirectiveDefault
			}
		}
	}
	return list, directive
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
