// Package plugins has one small plug-in of each kind, as an example: a closing
// rule, a selection and so on, each in one file.
//
// docs/extending.md explains the kinds and links these files. A program that imports
// this package can name the plug-ins in its configuration. The package knows
// only the packages that hold the tables.
package plugins
