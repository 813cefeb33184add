package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	_ "fedpace/internal/testkit/testseed"
)

// runAt is a run's status after so many of its 40 rounds.
func runAt(schedule string, round int) Status {
	s := Status{Subject: schedule, Done: float64(round) / 40}
	s.Add(0, "%s", schedule)
	s.Add(0, "round %d/40", round)
	s.Add(3, "36.2 s")
	s.Add(4, "K 35")
	s.Add(2, "loss 2.312")
	s.Add(2, "accuracy 0.250")
	s.Add(5, "5 rounds/s")
	if round < 40 {
		s.Add(1, "6s left")
	}
	return s
}

// A line fits into any terminal; the wider the terminal, the more it says.
func TestDisplay_LineFits(t *testing.T) {
	s := runAt("rounds", 10)
	for _, test := range []struct {
		columns   int
		bar, text string
	}{
		{120, "[=====>              ]", "rounds  round 10/40  36.2 s  K 35  loss 2.312  accuracy 0.250  5 rounds/s  6s left"},
		{100, "[==>       ]", "rounds  round 10/40  36.2 s  K 35  loss 2.312  accuracy 0.250  5 rounds/s  6s left"},
		{80, " 25%", "rounds  round 10/40  36.2 s  K 35  loss 2.312  accuracy 0.250  6s left"},
		{60, "[==>       ]", "rounds  round 10/40  loss 2.312  6s left"},
		{40, " 25%", "rounds  round 10/40  6s left"},
		{30, " 25%", "rounds  round 10/40"},
		{16, "", "rounds  round 1"},
		{1, "", "r"},
	} {
		bar, text := s.fit(test.columns)
		if bar != test.bar || text != test.text {
			t.Errorf("%d columns:\n got %q %q\nwant %q %q", test.columns, bar, text, test.bar, test.text)
		}
	}
}

func TestDisplay_LongLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Status{Subject: "x", Done: rapid.Float64Range(-0.2, 1).Draw(t, "done")}
		for range rapid.IntRange(0, 8).Draw(t, "parts") {
			s.parts = append(s.parts, part{rapid.StringN(0, 12, -1).Draw(t, "text"), rapid.IntRange(0, 4).Draw(t, "rank")})
		}
		columns := rapid.IntRange(1, 120).Draw(t, "columns")
		bar, text := s.fit(columns)
		n := utf8.RuneCountInString(text)
		if bar != "" {
			n += utf8.RuneCountInString(bar) + 1
		}
		if n > max(1, columns-1) {
			t.Fatalf("%d of %d columns: %q %q", n, columns, bar, text)
		}
	})
}

func TestBars(t *testing.T) {
	for done, want := range map[float64]string{0: "[>         ]", 0.5: "[=====>    ]", 0.999: "[=========>]", 1: "[==========]", -1: ""} {
		s := Status{Done: done}
		if got := s.bar(10); got != want {
			t.Errorf("%v: %q, want %q", done, got, want)
		}
	}
}

func TestDisplay_CompleteRunFillsBar(t *testing.T) {
	s := runAt("rounds", 40)
	if bar, text := s.fit(120); bar != "["+strings.Repeat("=", 20)+"]" || strings.Contains(text, "left") {
		t.Errorf("%q %q", bar, text)
	}
}

// terminalOf is a display on a terminal that a test reads.
func terminalOf(b *bytes.Buffer, columns int, colour bool) *Display {
	d := newDisplay(b, false)
	d.screen = screen{terminal: true, colour: colour, width: func() int { return columns }}
	return d
}

// A line is drawn over; another schedule's is another line, and so is a notice.
func TestDisplay_Terminal(t *testing.T) {
	var b bytes.Buffer
	d := terminalOf(&b, 40, false)
	for _, schedule := range []string{"dsgd", "fixed"} {
		d.Show(runAt(schedule, 20))
		d.Show(runAt(schedule, 40))
	}
	d.Notice("by the way")
	fetched := Status{Subject: "x", Done: 0.5}
	fetched.Add(0, "x")
	fetched.Add(1, "50 bytes of 100 bytes")
	fetched.Add(2, "50 %%")
	d.Show(fetched)
	d.Close()
	d.Close()
	lines := strings.Split(b.String(), "\n")
	if len(lines) != 5 || lines[2] != "by the way" || lines[4] != "" {
		t.Fatalf("lines %q", lines)
	}
	for i, last := range map[int]string{0: "100% dsgd  round 40/40", 1: "100% fixed  round 40/40", 3: " 50% x  50 bytes of 100 bytes"} {
		drawn := strings.Split(strings.TrimSuffix(lines[i], clearRest), "\r")
		if got := drawn[len(drawn)-1]; !strings.HasPrefix(got, last) {
			t.Errorf("line %d ends as %q, want %q", i, got, last)
		}
	}
	if strings.Contains(b.String(), "\x1b[3") {
		t.Error("colours where none may be")
	}
	b.Reset()
	d = terminalOf(&b, 100, true)
	d.Show(runAt("rounds", 10))
	if !strings.Contains(b.String(), "\x1b["+progressColour+"m[==>       ]\x1b[0m rounds") {
		t.Errorf("no colours: %q", b.String())
	}
}

// In a log a line comes now and then, and a notice at once.
func TestDisplay_Log(t *testing.T) {
	var b bytes.Buffer
	d := newDisplay(&b, false)
	d.Show(runAt("rounds", 10))
	d.Show(runAt("rounds", 11)) // too soon for another line
	d.Notice("by the way")
	d.printed = time.Time{}
	d.Show(runAt("dsgd", 1))
	d.Close()
	if want := runAt("rounds", 10).line() + "\nby the way\n" + runAt("dsgd", 1).line() + "\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

func (s Status) line() string { return s.Line() }

// What is watched is shown until the display is closed, and not where it is quiet.
func TestWatching(t *testing.T) {
	var b bytes.Buffer
	d := newDisplay(&b, false)
	asked := make(chan bool)
	d.Watch(func() (Status, bool) {
		asked <- true
		return ReadingStatus(func() (string, float64) { return "a/set.csv", 0.41 })()
	})
	<-asked
	<-asked // what was returned first has been shown
	d.Close()
	if want := "reading set.csv, 41 %\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
	if d.watching != nil {
		t.Error("a closed display watches")
	}
	newDisplay(&b, true).Watch(func() (Status, bool) { panic("nobody sees it") })
}

// A log's lines become seldom.
func TestDisplay_LogBecomesSeldom(t *testing.T) {
	for after, every := range map[time.Duration]time.Duration{0: lineEvery, time.Minute: lineEvery, 10 * time.Minute: 30 * time.Second, time.Hour: time.Minute} {
		var b bytes.Buffer
		d := newDisplay(&b, false)
		d.began = time.Now().Add(-after)
		d.printed = time.Now().Add(-every + time.Second)
		d.Show(runAt("rounds", 1))
		if b.Len() > 0 {
			t.Errorf("after %v a line comes sooner than every %v", after, every)
		}
		d.printed = time.Now().Add(-every - time.Second)
		d.Show(runAt("rounds", 1))
		if b.Len() == 0 {
			t.Errorf("after %v no line comes within %v", after, every)
		}
	}
}

// What is no terminal has no colours and is not drawn over.
func TestDisplay_PipeIsNoTerminal(t *testing.T) {
	if s := screenOf(&bytes.Buffer{}); s.terminal || s.colour || s.paint(problemColour, "x") != "x" {
		t.Errorf("%+v", s)
	}
}
