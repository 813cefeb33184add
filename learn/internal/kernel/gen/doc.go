// Command gen writes the amd64 assembly of package kernel with avo. Run it by
// go generate in package kernel; its output is committed.
package main
