package main

import "fedpace/cmd"

func main() { cmd.Main() }
