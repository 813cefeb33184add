package kernel

//go:generate go run ./gen -out kernels_amd64.s -stubs kernels_amd64.go -pkg kernel
