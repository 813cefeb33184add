//go:build !amd64

package kernel

func walk(bool) func() { return func() {} }
