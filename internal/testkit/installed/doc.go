// Package installed finds the programs of Debian's packages that tests play.
package installed
