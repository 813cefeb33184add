// Package fit turns a finished run with real devices into classes of devices: what the run's
// event log has of each task becomes speeds, overheads and scatter, with which simulated
// clients take as long as the devices did.
//
// Medians decide, so a few tasks that are far off do not move a class (package robust). The
// factor of a task is the time that it took divided by the typical time. Where there are
// enough tasks the factors themselves are the distribution by which tasks scatter, so that a
// simulation has their mean and their tails. Where devices were slow together, by more than a
// hundredth of the rounds' time, one round of the run is drawn for all of them.
//
// How far the tasks of different parts of the run are apart says how uncertain a class is for
// another run. The first task of a device is not among the tasks that are fitted: by how much
// it took longer is the class's first_task. Predictions use both.
//
// A run has models of one size, so a transfer's overhead and its speed cannot be told apart:
// the overhead stays that of the device's class, and the speed is what is left. The time of
// local steps has an overhead of its own where the run had enough different K.
package fit
