// Package folders has the commands for runs that are in folders already: fedpace ls lists them,
// rm removes them, and ui shows them in a browser.
//
// It finds runs in folders and reads what they left. It starts none.
package folders
