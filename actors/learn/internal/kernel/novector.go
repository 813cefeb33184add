//go:build !amd64

package kernel

const unreachable = "kernel: no assembly on this architecture"

func transposeAsm(Matrix, Matrix, int, int)             { panic(unreachable) }
func lookupAsm(Class, []float32, []byte, *[256]float32) { panic(unreachable) }
func prefetchAsm([]byte)                                { panic(unreachable) }
func softmaxAsm(Class, []float32, int, int, float32, *[Lanes]float32, *[Lanes]float32) {
	panic(unreachable)
}
func rowSumsAsm(Class, []float32, []float32, Op, float32)            { panic(unreachable) }
func addExactAsm(Class, []int64, float64, []float32, []float32) bool { panic(unreachable) }

func gruForwardAsm(Class, int, []float32, []float32, []float32, []float32) { panic(unreachable) }
func gruBackwardAsm(Class, int, []float32, []float32, []float32, []float32) {
	panic(unreachable)
}
func addScaled(*float32, *float32, int, float32) { panic(unreachable) }

func maxPoolAsm(Class, int, []float32, []float32, int, []int32) { panic(unreachable) }
func maxUnpoolAsm(Class, int, []float32, int, []int32, []float32, int, int) {
	panic(unreachable)
}

// Peak has no loop here: see the amd64 one.
func (c Class) Peak(int) float64 { return 0 }
