//go:build unix

package child

import "syscall"

// supported reports whether this system can start trainers.
const supported = true

// OwnGroup returns the attributes by which a process becomes the leader of a group, which a signal
// from the terminal does not reach.
func OwnGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// KillGroup kills what is left of the group of a process.
func KillGroup(leader int) {
	_ = syscall.Kill(-leader, syscall.SIGKILL) // an error says that nothing is left
}
