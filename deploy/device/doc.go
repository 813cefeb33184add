// Package device tests what installs a real device on a board: install.sh and the
// service that it sets up.
package device
