// Package live shows a run on one page while it goes, and leaves that page
// behind, as one file, when it has ended.
//
// A [Hub] is fed from the run's goroutine, once a round, and promises that
// feeding costs little and waits for nobody: it keeps a bounded history, thinned
// by a rule that looks at the number of rounds alone, and holds a short lock.
// JSON is made only while somebody watches, at most a few times a second, once
// for all who watch. A viewer has no queue: one that reads slowly skips frames
// and gets the whole picture when it is back, and one that does not read is cut
// off. So neither the number of rounds nor the viewers decide how much memory
// is held.
//
// The page is HTML, CSS and a script that are part of the binary. It asks for
// nothing but itself, shows whatever text a run carries as text, and has nothing
// that changes anything. Its last numbers are those of summary.json, which the
// final snapshot holds word for word.
//
// The package reads what package round reports. It knows nothing of the bus, the
// clock, the configuration's files or Prometheus, and nothing it holds decides
// anything in a run. Who listens on which address, and which hosts may ask, is
// the matter of package metrics.
package live
