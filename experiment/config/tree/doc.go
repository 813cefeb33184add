// Package tree reads YAML as a tree of values that know where they stand, so that every
// mistake in a configuration has its line. [Parse] reads a file, [Value] what a flag sets.
// Trees merge by [Node.Insert], which refuses a key that is set twice, and by
// [Node.Overlay], where the later counts.
package tree
