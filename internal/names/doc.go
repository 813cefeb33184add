// Package names holds what names of runs, devices and servers may look like.
// The configuration and the message bus hold to the same rules; neither knows
// the other. [Nearest] finds the known name that a mistyped one most likely means.
// The package uses the standard library alone.
package names
