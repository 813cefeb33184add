// Package tables is the output that leaves a run's results as tables for
// analysis, in Parquet: rounds.parquet, a row a round, and clients.parquet, a row
// for each client that had a task. [metrics.Columns] and [Client] are their columns.
//
// What a value means and its unit stand in the file, too: its metadata has the
// key "columns", a JSON object that gives every column's name a meaning and a
// unit. Virtual time is in seconds. A value that was not measured is null.
//
// [Tables] adds up what all clients do while a run goes, in memory that grows with
// the clients that had a task (about 140 bytes each) and in some ten nanoseconds a
// task. A task counts once its round does.
//
// The package reads what package metrics reports; it knows nothing of folders or
// configurations.
package tables
