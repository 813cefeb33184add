package config

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
			b.WriteString(strings.Replace(keys[i].path+": "+keys[i].write(&c), " \n", "\n", 1) + "\n")
			i++
			continue
		}
		end := i
		for end < len(keys) && strings.HasPrefix(keys[end].path, group+".") {
			end++
		}
		c.writeGroup(&b, group, keys[i:end])
		i = end
	}
	return []byte(b.String())
}

// writeGroup writes the keys of a group. In one that a word may stand for, what
// is null belongs to other words and is left out.
func (c *Config) writeGroup(b *strings.Builder, group string, keys []key) {
	var lines []string
	_, ruled := rules[group]
	for _, k := range keys {
		if !ruled || k.unset == nil || !k.unset(c) {
			lines = append(lines, k.path[len(group)+1:]+": "+k.write(c))
		}
	}
	if ruled && len(lines) == 1 {
		b.WriteString(group + lines[0][strings.Index(lines[0], ":"):] + "\n")
		return
	}
	b.WriteString(group + ":\n")
	for _, line := range lines {
		b.WriteString("  " + line + "\n")
	}
}
