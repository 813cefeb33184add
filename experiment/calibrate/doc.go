// Package calibrate measures how long one minibatch of a task takes this machine,
// as Table 2 of the paper does on a Raspberry Pi.
//
// It needs neither a server nor a run, so that a small device can measure itself.
package calibrate
