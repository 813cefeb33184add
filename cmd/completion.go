package cmd

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fedpace/config"
	"fedpace/coordinator/schedule"
)

// assignments completes KEY=VALUE for the shell, where begun is the word so far. Before the equals
// sign it offers the known keys, behind it the words that the key's value may be. For a key that
// holds a path, the shell completes files.
func assignments(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	key, _, chosen := strings.Cut(begun, "=")
	list := []string(nil)
	directive := cobra.ShellCompDirectiveNoFileComp
	// A key alone is incomplete: the shell adds no space, so that the value can follow at once.
	if !chosen {
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	offered := map[string]bool{}
	for _, k := range config.KnownKeys() {
		switch {
		// A key within a list has an index in its path, which cannot be completed.
		case k.InList():
		// Several entries may have an option of this name, which is offered once.
		case !chosen && strings.HasPrefix(k.Name, key) && !offered[k.Name]:
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

// scheduleList completes a list of schedules with commas between them. It offers only names that
// the list does not hold yet.
func scheduleList(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	// The shell replaces the whole word, so each offer repeats the names that were given before.
	given := begun[:strings.LastIndex(begun, ",")+1]
	var list []string
	// A formula of the user's own cannot be completed.
	for _, name := range schedule.Names() {
		if strings.HasPrefix(given+name, begun) && !slices.Contains(strings.Split(given, ","), name) {
			list = append(list, given+name)
		}
	}
	return list, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}
