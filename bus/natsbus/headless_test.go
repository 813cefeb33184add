package natsbus

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func TestIsLeaderless_ByError(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"no answer":        {errors.New("nats: timeout"), true},
		"no leader":        {&jetstream.APIError{Code: 503, ErrorCode: 10008}, true},
		"stream offline":   {fmt.Errorf("bus: %w", &jetstream.APIError{Code: 500, ErrorCode: 10118}), true},
		"consumer offline": {&jetstream.APIError{Code: 500, ErrorCode: 10119}, true},
		"no such stream":   {&jetstream.APIError{Code: 404, ErrorCode: 10059}, false},
		"lease not held":   {errNotHeld, false},
	} {
		if got := isLeaderless(test.err); got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

func TestHeadless_MajorityIsUp(t *testing.T) {
	begin := time.Now()
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	type look struct {
		server  string
		seconds int
	}
	for name, test := range map[string]struct {
		size  int
		looks []look
		want  bool
	}{
		"two of three":           {3, []look{{"a", 0}, {"b", 5}, {"b", 15}, {"b", 25}}, true},
		"not for long":           {3, []look{{"a", 0}, {"b", 5}, {"b", 15}, {"b", 24}}, false},
		"one of three":           {3, []look{{"a", 0}, {"a", 10}, {"a", 20}, {"a", 30}, {"a", 39}}, false},
		"one of three for long":  {3, []look{{"a", 0}, {"a", 10}, {"a", 20}, {"a", 30}, {"a", 40}}, true},
		"two of five":            {5, []look{{"a", 0}, {"b", 5}, {"a", 15}, {"b", 25}, {"a", 35}}, false},
		"three of five":          {5, []look{{"a", 0}, {"b", 5}, {"c", 15}, {"a", 25}, {"b", 35}}, true},
		"unknown size":           {0, []look{{"a", 0}, {"b", 5}, {"b", 15}, {"b", 25}}, true},
		"requests too far apart": {3, []look{{"a", 0}, {"b", 5}, {"b", 25}}, false},
		"a server forgotten":     {3, []look{{"a", 0}, {"b", 2}, {"b", 14}, {"b", 21}, {"b", 22}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := headless{size: test.size, runOpened: true}
			var err error
			for _, l := range test.looks {
				err = h.noteSilence(l.server, at(l.seconds))
			}
			if got := err != nil; got != test.want {
				t.Errorf("got %v, want an error: %v", err, test.want)
			}
		})
	}
}

func TestHeadless_NamesServers(t *testing.T) {
	h := headless{size: 3, runOpened: true}
	begin := time.Now()
	for i := range 30 {
		name := []string{"s2", "s1"}[i%2]
		err := h.noteSilence(name, begin.Add(time.Duration(i)*time.Second))
		if err == nil {
			continue
		}
		// The second server is found after 1 s, and a majority has been up since.
		if i != 21 || !strings.Contains(err.Error(), "no leader for 20s although a majority of its servers is up: s1, s2 (start") {
			t.Errorf("after %d s: %v", i, err)
		}
		return
	}
	t.Error("the cluster counts as having a leader")
}

func TestHeadless_AnswerEndsSilence(t *testing.T) {
	h := headless{size: 3, runOpened: true}
	begin := time.Now()
	for i := range 100 {
		name := []string{"s2", "s1"}[i%2]
		if i%20 == 19 {
			h.noteAnswer()
		}
		if err := h.noteSilence(name, begin.Add(time.Duration(i)*time.Second)); err != nil {
			t.Fatalf("after %d s: %v", i, err)
		}
	}
}

// Before the run is opened, servers may be starting; the run still ends within a minute, also where three servers of
// five have to be found.
func TestHeadless_BeforeRun(t *testing.T) {
	h := headless{size: 5}
	begin := time.Now()
	for i := range 60 {
		// The first request fails after 12 s, and the connection moves each 10 s.
		second := 12 + i
		name := []string{"s1", "s2", "s3"}[min(i/10, 2)]
		err := h.noteSilence(name, begin.Add(time.Duration(second)*time.Second))
		if err == nil {
			continue
		}
		if second != 57 || !strings.Contains(err.Error(), "then start or resume the run)") {
			t.Errorf("after %d s: %v", second, err)
		}
		return
	}
	t.Error("the cluster counts as having a leader")
}

// Where too few servers are up, the run ends within a minute, too, before it is opened and later.
func TestHeadless_MinorityIsUp(t *testing.T) {
	for _, begun := range []bool{false, true} {
		h := headless{size: 3, runOpened: begun}
		begin := time.Now()
		var err error
		second := 11
		for err == nil && second < 60 {
			second++
			err = h.noteSilence("s1", begin.Add(time.Duration(second)*time.Second))
		}
		if err == nil || second != 52 || !strings.Contains(err.Error(), "no leader for 40s; up is s1 (start the others") {
			t.Errorf("opened %v, after %d s: %v", begun, second, err)
		}
	}
}
