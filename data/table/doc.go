// Package table reads tables of one's own, CSV or Parquet, by a mapping of their
// columns.
//
// A [Table] is the mapping: whose a row is, what a model reads of it, and what it is
// to tell. [Propose] looks at a table and guesses one, and [Map] changes the options
// of one by texts. A table's files hand cells, whatever their format, to one taker
// for each column that has a meaning; a reading gathers what the takers have and
// makes the set.
package table
