package throttle

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// echo is a server that sends everything back.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); _, _ = io.Copy(c, c) }()
		}
	}()
	return l.Addr().String()
}

// What goes through arrives whole, and not before the link can have carried it there and
// back.
func TestLink_Limited(t *testing.T) {
	p, err := Start(Config{Server: echo(t), Download: 20, Upload: 10, Latency: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c, err := net.Dial("tcp", p.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sent := make([]byte, 100_000)
	for i := range sent {
		sent[i] = byte(i * i >> 3)
	}
	began := time.Now()
	go func() { _, _ = c.Write(sent) }()
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(c, got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(sent, got) {
		t.Error("other bytes come back")
	}
	// 0.8 Mbit up take 80 ms, and the last segment comes 5 ms later and takes as long back.
	if took := time.Since(began); took < 90*time.Millisecond {
		t.Errorf("it took %v, less than the link needs", took)
	}
}

// Close ends connections that are open, and those that nobody answers.
func TestClose_EndsConnections(t *testing.T) {
	p, err := Start(Config{Server: echo(t), Download: 0.001})
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", p.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(make([]byte, 10_000)); err != nil {
		t.Fatal(err)
	}
	p.Close()
	if _, err := io.ReadAll(c); err == nil {
		return // it is closed
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("it stays open: %v", err)
	}
	if _, err := Start(Config{Upload: -1}); err == nil {
		t.Error("a negative speed is taken")
	}
}
