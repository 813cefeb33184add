package kernel

// walk makes small products too walk along the rows of C, and takes the processor for one
// whose vectors are halves or not, until it is undone.
func walk(rows, halves bool) func() {
	from, in := alongRows, inHalves
	if rows {
		alongRows = 0
	}
	inHalves = halves
	return func() { alongRows, inHalves = from, in }
}
