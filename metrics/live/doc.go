// Package live shows a run on one page while it goes on, and leaves that page behind,
// as one file, at its end.
//
// The run's goroutine reports each round to a [Hub]. A report is cheap and waits for no
// viewer: the hub keeps a bounded history, which it thins by the number of rounds
// alone, and holds its lock for a moment. It makes JSON only while somebody watches, at
// most a few times a second, once for all viewers. No viewer has a queue: a slow one
// skips frames and then gets the whole state, and one that does not read is
// disconnected. So memory depends neither on the number of rounds nor on the viewers.
//
// The page is HTML, CSS and a script inside the binary. It requests its own files alone,
// shows every text of a run as text, and cannot change anything. Its last numbers are
// those of summary.json, which the final snapshot contains word for word.
//
// The package reads what package metrics reports and decides nothing in a run. Package
// web listens, and checks which hosts may ask.
package live
