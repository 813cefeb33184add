// Package fetch downloads the public archives that federated datasets are made
// from.
//
// [Archives] is the list: where each one is, and its published checksum. A
// [Fetcher] downloads one. It promises that the file has its final name only
// when it is whole and its checksum is right, that a download which stops for
// whatever reason goes on where it stopped, and that a server which stalls,
// breaks off or changes its mind costs time but never a wrong file.
//
// The package knows neither what is in an archive nor who reads it.
package fetch
