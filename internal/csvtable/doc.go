// Package csvtable writes slices of structs as CSV files and reads them back.
//
// A field with the tag `csv:"name"` is a column; embedded structs add theirs. Text,
// whole numbers, booleans and floating-point numbers can be columns. NaN, a value
// that does not exist, is an empty cell.
package csvtable
