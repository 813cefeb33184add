// Command site renders the project's pages as a website that needs neither a network
// nor a server: the same Markdown files, with their pictures and what else they link
// to, in one folder.
//
//	go run ./docs/site OUT
//
// It runs in the project's folder. A link that leads nowhere is an error.
package main
