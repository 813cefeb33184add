// Package table has tables that are written in several forms and read back.
//
// [Columns] say what the values of rows are called, in files and for people. Of one list of them
// follow a text for terminals, a Markdown table, a CSV file and JSON. The columns of a struct are
// its fields with the tag `csv:"name"`, those of embedded structs included ([Of]); its rows can be
// read again ([Read]). NaN, a value that does not exist, is an empty cell, or null in JSON.
package table
