// Package calibrate measures a device so that a class of simulated clients predicts it:
// how long a local step takes and what a task takes besides, how fast models come and
// updates go, how much all of that scatters, and the memory and the power that it takes.
//
// Both parts are measured with the code that a run uses. Local steps are those of a
// [real.Device] on the model and the samples of a [Subject]. Transfers are tasks of a run
// that does nothing else: [MeasureNetwork] is the device's end, experiment/fit/calibration
// the coordinator's. The messages are those of any run, and a device needs no further right.
//
// What the first task takes besides is kept apart. With a coordinator tasks are as a run has
// them: after a rest, and with no more steps than the run's first ones.
//
// One time says little. A [Line] is fitted to the times of tasks of two sizes, such as
// those of one step and of many, or of two models: its slope is the time of a step or of a
// bit, and its intercept is the time that every task takes in addition. Medians stand for times,
// with 95 % intervals; a measurement continues until these are narrow enough, or reports that they
// are not. How well a class holds at another time follows from the differences between parts of the
// measurement ([robust.BlocksOf]). [Result.WriteClass] writes the class.
package calibrate
