// Package config is the configuration of a run: all that decides what a run
// computes, read from YAML, checked, and written so that it reads back to the
// same.
//
// A [Config] which [Config.Validate] accepts can be run, and [Config.YAML]
// writes a file from which [Load] gives the same Config. The tasks' constants
// are those of the paper's Tables 1 and 2 (defaults.go).
//
// Errors name the file and line, the key, the value and what would be right.
// The package imports only the pure packages whose options a configuration
// holds. It opens no data and knows neither the message bus nor how a run is
// carried out.
package config
