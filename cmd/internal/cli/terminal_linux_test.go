package cli

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openTerminal is a pseudo terminal of so many columns: what is written to tty
// appears on master (pty(7)).
func openTerminal(t *testing.T, columns uint16) (master, tty *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatal(err)
	}
	return master, tty
}

var escapes = regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]`)

// Two runs on real terminals of any width: no line breaks, both bars are full
// at the end.
func TestTerminal_Runs(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	for _, columns := range []uint16{20, 50, 104, 200} {
		master, tty := openTerminal(t, columns)
		said := make(chan string, 1)
		go func() {
			var text []byte
			buffer := make([]byte, 4096)
			for {
				n, err := master.Read(buffer)
				text = append(text, buffer[:n]...)
				if err != nil || strings.Contains(string(text), "the end") {
					said <- string(text)
					return
				}
			}
		}()
		d := newDisplay(tty, false)
		for _, schedule := range []string{"dsgd", "rounds"} {
			for n := range 41 {
				d.Show(runAt(schedule, n))
			}
		}
		d.Notice("the end")
		var text string
		select {
		case text = <-said:
		case <-time.After(20 * time.Second):
			t.Fatal("the terminal says nothing")
		}
		if !strings.Contains(text, "\x1b[") {
			t.Errorf("%d columns: no colours on a terminal", columns)
		}
		lines := strings.Split(strings.TrimSpace(escapes.ReplaceAllString(text, "")), "\n")
		if len(lines) != 3 {
			t.Fatalf("%d columns: %d lines: %q", columns, len(lines), lines)
		}
		for i, line := range lines[:2] {
			drawn := strings.Split(strings.Trim(line, "\r"), "\r")
			for _, one := range drawn {
				if len(one) >= int(columns) {
					t.Errorf("%d columns: a line of %d breaks: %q", columns, len(one), one)
				}
			}
			last := drawn[len(drawn)-1]
			if !strings.Contains(last, "100%") && !strings.Contains(last, "=]") && columns > 20 {
				t.Errorf("%d columns: run %d ends as %q", columns, i, last)
			}
		}
	}
}

func TestTerminal_NoColor(t *testing.T) {
	_, tty := openTerminal(t, 80)
	for _, test := range []struct {
		term, no         string
		terminal, colour bool
	}{{"xterm", "", true, true}, {"xterm", "1", true, false}, {"xterm", "0", true, false}, {"dumb", "", false, false}} {
		t.Setenv("TERM", test.term)
		t.Setenv("NO_COLOR", test.no)
		if s := screenOf(tty); s.terminal != test.terminal || s.colour != test.colour {
			t.Errorf("TERM=%s NO_COLOR=%q: terminal %v, colour %v", test.term, test.no, s.terminal, s.colour)
		}
	}
}
