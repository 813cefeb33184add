package kernel

// walk makes small products too walk along the rows of C, until it is undone.
func walk(rows bool) func() {
	before := alongRows
	if rows {
		alongRows = 0
	}
	return func() { alongRows = before }
}
