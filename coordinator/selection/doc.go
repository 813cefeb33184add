// Package selection says how a round's clients are chosen among those that are
// available, by a [Rule] with its options. A rule is one file that registers itself in
// [Rules].
package selection
