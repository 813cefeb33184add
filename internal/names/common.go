package names

import (
	"runtime"
	"strconv"
	"strings"
	"unicode"
)

// commonNames are names by which other tools call what a key of the configuration sets.
var commonNames = map[string]string{
	"lr":                "schedule.eta0",
	"learning_rate":     "schedule.eta0",
	"eta":               "schedule.eta0",
	"epochs":            "schedule.k0",
	"local_epochs":      "schedule.k0",
	"local_steps":       "schedule.k0",
	"steps":             "schedule.k0",
	"batch_size":        "batch",
	"num_clients":       "clients",
	"num_rounds":        "stop.rounds",
	"clients_per_round": "cohort",
	"fraction_fit":      "cohort",
	"optimizer":         "local",
	"dataset":           "data",
}

// CommonKey returns the key of the configuration that other tools call by this name, as
// schedule.eta0 for lr and learning-rate; empty where no tool is known to.
func CommonKey(name string) string {
	return commonNames[strings.ReplaceAll(strings.ToLower(name), "-", "_")]
}

// Printable returns a text in which each rune that a terminal could obey, such as the escape
// of a colour or a line's end, is written as Go writes it in quotes. A message about a file that
// another person named passes through it.
func Printable(text string) string {
	if strings.IndexFunc(text, unprintable) < 0 {
		return text
	}
	var builder strings.Builder
	for _, r := range text {
		if !unprintable(r) {
			builder.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		builder.WriteString(quoted[1 : len(quoted)-1])
	}
	return builder.String()
}

// unprintable reports whether a rune moves, colours or hides text. A tab stands in tables.
func unprintable(r rune) bool {
	return r != '\t' && !unicode.IsPrint(r) && r != unicode.ReplacementChar
}

// PortHolder says how a person finds the program that listens on an address's port.
func PortHolder(address string) string {
	port := address[strings.LastIndex(address, ":")+1:]
	if runtime.GOOS == "linux" {
		return "ss -ltnp 'sport = :" + port + "' says by which program"
	}
	return "lsof -nP -iTCP:" + port + " says by which program"
}
