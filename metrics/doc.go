// Package metrics holds what a run reports while it goes, and the plug point of
// the outputs that take it: rounds.csv, tables, the event log, the live page,
// Prometheus and others.
//
// A [Sink] is an output that a configuration can name: a struct of options, with
// tags as in package registry, which its package registers in [Sinks]. Open makes
// an [Output] of it for one run. An Output takes every round; with the optional
// interfaces (for example [TaskObserver], [ClientsObserver], [Stateful], [Finisher]) it takes more.
// An output of which nothing is asked costs nothing: tasks go only to outputs that
// observe tasks.
//
// To read the package, begin with sink.go, the interfaces of outputs, and run.go, what an output
// learns of its run. recorder.go calls the outputs; collector.go decides which tasks they see;
// usage.go adds up what the clients spend; fairness.go compares clients.
//
// What a round is measured by is one list, [Columns]: its entries say what a value is and where a
// report has it, and all outputs are made of them.
//
// The [Recorder] belongs to the run's goroutine. The run tells it each task and
// each round; it meters what the clients spend ([Usage]), keeps the tasks that
// are shown, and hands both to the outputs. Its [State] is what
// a checkpoint keeps, so an output goes on where it was, and the files that it
// appends to are cut back to the checkpoint by the run's [Folder].
//
// The package reads what package round reports. It knows nothing of the bus, the
// clock, HTTP, configurations or other packages' outputs, and nothing that it
// holds decides anything in a run.
package metrics
