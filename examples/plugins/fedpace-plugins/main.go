package main

import (
	"fedpace/cmd"
	_ "fedpace/examples/plugins"
)

func main() { cmd.Main() }
