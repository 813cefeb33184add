// Package tree reads YAML as a tree of values that know where they stand, so that every
// mistake in a configuration has its line. [Parse] reads a file, [Value] what a flag sets.
// [Node.Insert] puts keys together and refuses one that is set twice.
package tree
