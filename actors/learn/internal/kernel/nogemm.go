//go:build !amd64 && !arm64

package kernel

func supported(Class) bool { return false }

func gemmAsm(Class, int, int, int, []Segment, Operand, Matrix, Matrix, Op, []float32, float32) {
	panic(unreachable)
}
