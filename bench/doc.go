// Package bench has the tests of "python3 bench", which measures docs/performance.md.
package bench
