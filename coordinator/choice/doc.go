// Package choice says what a selection is: how a round's clients are chosen among those that
// are available, and what it may know of its run.
//
// A selection is one file that registers itself in [Selections]. Package selection has all but
// the default, [Uniform]. An order that also follows what its clients do is a round.Following.
package choice
