// Package calibration is the coordinator's end of package calibrate: it sends models to
// devices that measure their links ([Serve]), and says what a configuration gives a device to
// measure ([OfConfig]).
package calibration
