package mailbox

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// Mailbox hands items from a subscription to the goroutine that takes them, a batch under one lock. It holds at
// most limit items: more mean that somebody sends what nobody asked for, and every take then fails.
type Mailbox[T any] struct {
	mu    sync.Mutex
	items []T
	// err is the error of every take once items is empty.
	err error
	// nextError is the error of one take once items is empty.
	nextError error
	limit     int
	// ready holds at most one token, which makes a waiting take look again.
	ready chan struct{}

	// waiting is the number of takes under way.
	waiting atomic.Int64
}

// New returns an empty mailbox for at most limit items.
func New[T any](limit int) *Mailbox[T] {
	return &Mailbox[T]{limit: limit, ready: make(chan struct{}, 1)}
}

// Put adds an item for the next take.
func (b *Mailbox[T]) Put(item T) { b.PutAll([]T{item}) }

// PutAll adds items for the next take. If there is no room for all of them, none is added, and every take
// fails from then on, once the items before are taken.
func (b *Mailbox[T]) PutAll(items []T) {
	b.mu.Lock()
	wasEmpty := len(b.items) == 0
	if len(b.items)+len(items) > b.limit {
		if b.err == nil {
			b.err = fmt.Errorf("bus: over %d messages wait to be taken", b.limit)
		}
	} else {
		b.items = append(b.items, items...)
	}
	b.mu.Unlock()
	if wasEmpty {
		b.wake()
	}
}

// Fail makes every take fail with err, once the items that came before are taken. The first error counts.
func (b *Mailbox[T]) Fail(err error) {
	b.mu.Lock()
	if b.err == nil {
		b.err = err
	}
	b.mu.Unlock()
	b.wake()
}

// Signal makes one take fail with err, once the items that came before are taken.
func (b *Mailbox[T]) Signal(err error) {
	b.mu.Lock()
	b.nextError = err
	b.mu.Unlock()
	b.wake()
}

// Holds reports whether an item for which f is true waits to be taken.
func (b *Mailbox[T]) Holds(f func(T) bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.items, f)
}

// wake makes a waiting take look again, or the next one if none waits.
func (b *Mailbox[T]) wake() {
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// Take waits for items and returns all that are there. The mailbox stores later items in the memory of
// buffer, whose content is lost, so that two lists serve all takes. The error is that of Fail, Signal or
// ctx.
func (b *Mailbox[T]) Take(ctx context.Context, buffer []T) ([]T, error) {
	b.waiting.Add(1)
	defer b.waiting.Add(-1)
	for {
		b.mu.Lock()
		items := b.items
		err := b.err
		if len(items) > 0 {
			b.items = buffer[:0]
			b.mu.Unlock()
			return items, nil
		}
		if err == nil {
			err = b.nextError
			b.nextError = nil
		}
		b.mu.Unlock()
		if err != nil {
			return buffer[:0], err
		}
		select {
		case <-b.ready:
		case <-ctx.Done():
			return buffer[:0], ctx.Err()
		}
	}
}

// TakeOne waits for an item and returns it. Items behind it stay for the next take.
func (b *Mailbox[T]) TakeOne(ctx context.Context) (item T, err error) {
	batch, err := b.Take(ctx, nil)
	if err != nil {
		return item, err
	}
	b.mu.Lock()
	b.items = append(batch[1:], b.items...)
	b.mu.Unlock()
	b.wake()
	return batch[0], nil
}

// Pending is the number of items that wait to be taken.
func (b *Mailbox[T]) Pending() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.items)
}

// Waiting is the number of takes under way.
func (b *Mailbox[T]) Waiting() int64 { return b.waiting.Load() }
