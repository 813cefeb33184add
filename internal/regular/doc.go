// Package regular opens files that somebody else may have put there. To open or to read what
// is none, such as a named pipe or /dev/zero, may take for ever.
package regular
