// Package screenshots makes the pictures on the pages:
//
//	make screenshots
//
// It types the tutorial's commands, opens the runs that they leave in Chromium, and
// writes the pictures into the folder docs. The build tag screenshots keeps its test, which
// links the whole program, out of go test ./...: package ui and package live test the pages
// themselves.
package screenshots
