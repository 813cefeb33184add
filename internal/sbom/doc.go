// Command sbom writes beside each Go binary the list of what is in it, as a CycloneDX
// document: its modules with their versions and hashes, and the Go release that built it,
// as the binary itself says. A binary always has the same list, byte for byte.
package main
