// Package python holds fedpace.py, the Python end of external trainers, so that
// the binary can write it to a folder of a trainer's PYTHONPATH: there is nothing
// to install.
//
// The same file is an installable package (pyproject.toml). docs/trainers.md says
// how to use it and what it speaks; the Python tests beside it talk to it as
// fedpace does.
package python
