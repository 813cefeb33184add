// Package attacktest has attacks for tests of what an [attack.Behaviour] can do besides changing
// updates: report another loss, and take longer. No paper describes them, so they are no attacks of
// fedpace's own. A test that imports the package can name them in a configuration.
package attacktest
