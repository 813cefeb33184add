package subject

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"fedpace/bus"
	"fedpace/internal/names"
	_ "fedpace/internal/testkit/testseed"
)

func FuzzClientSubject(f *testing.F) {
	s := ClientSubjects("r")
	for _, subject := range []string{
		"fedpace.r.client.17.task", "fedpace.r.client.017.task", "fedpace.r.client.pi4.task", "fedpace.q.client.17.task",
		"fedpace.r.client.-1.task", "fedpace.r.client..task", "fedpace.r.client.9999999999.task", "fedpace.r.client.1.2.task", "",
	} {
		f.Add(subject)
	}
	f.Fuzz(func(t *testing.T, subject string) {
		client, ok := s.Client(subject, Task)
		if ok && s.Subject(client, Task) != subject {
			t.Errorf("%q is read as client %d, whose subject is %q", subject, client, s.Subject(client, Task))
		}
	})
}

func TestClients_OneSubjectEach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run := rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`).Draw(t, "run")
		client := rapid.IntRange(0, bus.MaxClients).Draw(t, "client")
		if err := names.CheckToken("run", run); err != nil {
			t.Fatal(err)
		}
		s := ClientSubjects(run)
		subject := s.Subject(client, Task)
		if want := "fedpace." + run + ".client." + strconv.Itoa(client) + ".task"; subject != want {
			t.Fatalf("got %q, want %q", subject, want)
		}
		if got, ok := s.Client(subject, Task); !ok || got != client {
			t.Fatalf("%q is read as %d, %v", subject, got, ok)
		}
		host := rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`).Draw(t, "host")
		placed := s.Subject(client, TaskFor(host))
		if got, ok := s.Client(placed, TaskFor(host)); !ok || got != client || placed != subject+"."+host {
			t.Fatalf("%q is read as %d, %v", placed, got, ok)
		}
		if _, ok := s.Client(placed, Task); ok {
			t.Fatalf("%q is read as one for any host", placed)
		}
		if _, ok := s.Client(subject, Plan); ok {
			t.Fatalf("%q is read as a plan's", subject)
		}
	})
}
