//go:build !unix

package external

import "syscall"

const supported = false

func ownGroup() *syscall.SysProcAttr { return nil }

func killGroup(int) {}
