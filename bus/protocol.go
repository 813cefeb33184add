package bus

import (
	"fmt"
	"strings"
)

// These are the versions of the protocol between a run and devices, by what a device of the version can
// do in addition to all below it. A run refuses devices of versions that would ignore something that the
// run depends on.
const (
	// ProtocolAlgorithm: the device trains as Spec.algorithm says, or refuses the run.
	ProtocolAlgorithm = 1
	// ProtocolOptimizer: the device uses the local optimizer of Spec.local.
	ProtocolOptimizer = 2
	// ProtocolSchema: the device reads samples as Welcome.schema says.
	ProtocolSchema = 3
	// ProtocolNoise: the device adds the noise of Spec.noise_multiplier to updates.
	ProtocolNoise = 4
	// ProtocolFrozen: the device fetches Task.frozen_digest once and sends only the parameters
	// before the frozen ones.
	ProtocolFrozen = 5
	// ProtocolState: the device keeps Welcome.kept values of client state and compresses updates as
	// Spec.compression says.
	ProtocolState = 6
	// ProtocolSecure: the device masks its updates as Welcome.secure asks.
	ProtocolSecure = 7
	// ProtocolDiscrete: the device adds the noise of Welcome.secure to its masked updates.
	ProtocolDiscrete = 8
	// ProtocolTargets: the device scales targets as Welcome.schema says.
	ProtocolTargets = 9
	// ProtocolGroups: with secure aggregation the device takes its steps before it agrees on masks, where rounds
	// overlap.
	ProtocolGroups = 10
	// ProtocolMasks: the device makes the masks of secure aggregation by AES-128, which those of lower versions made
	// otherwise.
	ProtocolMasks = 11

	// DeviceProtocol is the version of devices of this program.
	DeviceProtocol = ProtocolMasks
)

// VersionsDiffer reports whether two programs are of different versions. A program that does not
// state its version (empty, or "development") differs from no other. Builds of one commit do not
// differ, however the go command spells the version: the commit alone, with its time, or with
// "+dirty".
func VersionsDiffer(version, other string) bool {
	version = commit(version)
	other = commit(other)
	return version != "" && other != "" && version != other
}

// commit extracts the commit, the last twelve hexadecimal digits, from a version. It returns the
// version itself, without what follows a "+", if that names no commit, and an empty string for
// "development", a build without version control.
func commit(version string) string {
	version, _, _ = strings.Cut(version, "+")
	if version == "development" {
		return ""
	}
	const digits = 12
	start := len(version) - digits
	if start < 0 {
		return version
	}
	isHex := strings.Trim(version[start:], "0123456789abcdef") == ""
	isSeparate := start == 0 || version[start-1] == '-'
	if isHex && isSeparate {
		return version[start:]
	}
	return version
}

// HostProtocol is the version of the protocol between coordinators and hosts of this
// program. It must be raised with every change by which an older host would misread a message,
// answer a task with another plan, or compute another sum for a job.
const HostProtocol = 11

// CheckProtocol returns nil if hosts of this program may serve the run, or else an error that says
// which of the two programs to update. version is that of this program, for the error alone.
func (r *RunInfo) CheckProtocol(version string) error {
	if r.Protocol == HostProtocol {
		return nil
	}
	update := "the coordinator"
	if r.Protocol > HostProtocol {
		update = "this host"
	}
	return fmt.Errorf("it is coordinated by version %s (protocol %d) and this host is version %s (protocol %d), "+
		"whose plans and sums may differ: update %s, or start a host of the coordinator's version",
		r.Version, r.Protocol, version, HostProtocol, update)
}
