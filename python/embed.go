package python

import _ "embed" // of fedpace.py

// Name is the name of the file that Source is the content of.
const Name = "fedpace.py"

//go:embed fedpace.py
var Source []byte
