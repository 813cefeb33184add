// Package python holds the Python package fedpace, so that the binary can write it to a
// folder of a trainer's PYTHONPATH: there is nothing to install. Its module trainer is the
// Python end of external trainers, and results reads what runs leave.
//
// The same files are an installable package (pyproject.toml). docs/trainers.md and
// docs/results.md say how to use it; the Python tests beside it talk to trainers as fedpace
// does.
package python
