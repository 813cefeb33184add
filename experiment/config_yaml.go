package experiment

import (
	"strings"
)

// YAML is the resolved configuration as a file that [Load] reads back to the
// same Config. It is the same text for the same Config.
func (c Config) YAML() []byte {
	var b strings.Builder
	b.WriteString("# The configuration of a run, complete: fedpace run --config reads it.\n")
	for i := 0; i < len(keys); {
		group, _, ok := strings.Cut(keys[i].path, ".")
		if !ok {
			b.WriteString(keys[i].path + ": " + keys[i].write(&c) + "\n")
			i++
			continue
		}
		b.WriteString(group + ":\n")
		for ; i < len(keys) && strings.HasPrefix(keys[i].path, group+"."); i++ {
			b.WriteString("  " + keys[i].path[len(group)+1:] + ": " + keys[i].write(&c) + "\n")
		}
	}
	return []byte(b.String())
}
