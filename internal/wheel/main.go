package main

import (
	"flag"
	"fmt"
	"os"
)

// main makes a wheel of each binary that the arguments name, and prints the path of each. It stops
// at the first that fails, with exit status 1.
func main() {
	version := flag.String("version", "", "version, as git describe gives it")
	python := flag.String("python", "python", "folder of the Python package")
	licence := flag.String("licence", "LICENSE", "file of the licence")
	out := flag.String("out", "dist", "folder for the wheels")
	flag.Parse()
	b := builder{version: pep440(*version), python: *python, licence: *licence, out: *out}
	for _, binary := range flag.Args() {
		name, err := b.build(binary)
		if err != nil {
			fmt.Fprintln(os.Stderr, "wheel:", err)
			os.Exit(1)
		}
		fmt.Println(name)
	}
}
