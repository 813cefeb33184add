// Package nearest finds the known word that a mistyped one most likely meant.
//
// It is pure, and knows neither keys nor commands.
package nearest
