//go:build unix

package external

import "syscall"

// supported reports whether this system can start trainers.
const supported = true

// ownGroup makes a process the leader of a group, which a signal from the terminal does
// not reach.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills what is left of the group of a process.
func killGroup(leader int) {
	_ = syscall.Kill(-leader, syscall.SIGKILL) // an error says that nothing is left
}
