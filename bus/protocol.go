package bus

import (
	"fmt"
	"strings"
)

// Versions of the protocol that devices speak.
const (
	ProtocolAlgorithm = 1 // from it on a device trains as Spec.algorithm says, or not at all
	ProtocolOptimizer = 2 // and as Spec.local says
	ProtocolSchema    = 3 // and its samples mean what Welcome.schema says
	ProtocolNoise     = 4 // and its updates have the noise of Spec.noise_multiplier
	ProtocolFrozen    = 5 // and it fetches Task.frozen_digest once, and sends what is before it
	ProtocolState     = 6 // and it keeps Welcome.kept values, and compresses its updates as Spec.compression says

	// DeviceProtocol is the version of devices of this program.
	DeviceProtocol = ProtocolState
)

// VersionsDiffer reports whether two programs are of different versions; one that does not say
// its version differs from none. Builds of one commit have one version, however the go
// command names it: by the commit, by its time, too, or with files beside the commit's.
func VersionsDiffer(version, other string) bool {
	version = commit(version)
	other = commit(other)
	return version != "" && other != "" && version != other
}

// commit is the commit in a version, the version where it names none, and nothing for a
// build that knows of none.
func commit(version string) string {
	version, _, _ = strings.Cut(version, "+")
	if version == "development" {
		return ""
	}
	const digits = 12
	if i := len(version) - digits; i >= 0 &&
		strings.Trim(version[i:], "0123456789abcdef") == "" &&
		(i == 0 || version[i-1] == '-') {
		return version[i:]
	}
	return version
}

// HostProtocol is the version of the protocol that coordinators and hosts of this
// program speak with each other. It is raised by every change after which a host of
// before would misread a message, answer a task with another plan, or do a job to
// another sum. Programs of one build have one number, so they always fit.
const HostProtocol = 5

// CheckProtocol returns an error if hosts of this program, which is of the given version, must
// not serve the run.
func (r *RunInfo) CheckProtocol(version string) error {
	if r.Protocol == HostProtocol {
		return nil
	}
	update := "the coordinator"
	if r.Protocol > HostProtocol {
		update = "this host"
	}
	return fmt.Errorf("it is coordinated by version %s (protocol %d) and this host is version %s (protocol %d), whose plans and sums may differ: update %s, or start a host of the coordinator's version",
		r.Version, r.Protocol, version, HostProtocol, update)
}
