package kernel

// memories holds values that are not in use, so that products allocate nothing. At most as many are kept as the
// channel has room for.
type memories[T any] chan *T

// take returns a value that is not in use, with arbitrary content, or a new one. The caller returns it with release.
func (free memories[T]) take() *T {
	select {
	case value := <-free:
		return value
	default:
		return new(T)
	}
}

// release keeps a value for the next take. If there is no room, it is dropped.
func (free memories[T]) release(value *T) {
	select {
	case free <- value:
	default:
	}
}
