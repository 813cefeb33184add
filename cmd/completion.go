package cmd

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fedpace/config"
	"fedpace/coordinator/schedule"
)

// assignments complete key=value: first the key, from the table of keys, then
// its value where the key knows words.
func assignments(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	key, _, chosen := strings.Cut(begun, "=")
	list := []string(nil)
	directive := cobra.ShellCompDirectiveNoFileComp
	if !chosen {
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	offered := map[string]bool{}
	for _, k := range config.KnownKeys() {
		switch {
		case k.Listed():
		case !chosen && strings.HasPrefix(k.Name, key) && !offered[k.Name]: // by another entry, which has it, too
			list = append(list, cobra.CompletionWithDesc(k.Name+"=", k.About()))
			offered[k.Name] = true
		case chosen && k.HasName(key):
			for _, w := range k.Offered() {
				w = key + "=" + w
				if strings.HasPrefix(w, begun) {
					list = append(list, w)
				}
			}
			if k.IsPath() {
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
