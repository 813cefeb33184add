// Package parquetfile reads Parquet files by their columns: every codec, encoding
// and version of pages that writers use.
//
// [Open] opens a file whose footer is sound, and [Join] makes one [Sheet] of files
// with the same columns. [Sheet.Fields] says what the columns hold; [Sheet.Each]
// and [Sheet.Values] hand out their values, and a [Field] turns a value to a number
// or a text. [Sheet.Take] hands out the numbers of a page at once where it can. The
// Parquet library decodes values; what it would believe without a look is checked
// here, so that no length is used that the bytes of the file do not back.
package parquetfile
