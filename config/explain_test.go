package config

import (
	"strings"
	"testing"
)

func TestExplain(t *testing.T) {
	for path, want := range map[string]string{
		"schedule.k0":     "schedule.k0: local steps at the start, K_0\n  a whole number from 1 to 1000000",
		"close.deadline":  "seconds: virtual time from a round's first task until it closes",
		"deadline":        "seconds: virtual time from a round's first task until it closes",
		"select.from.fit": "local steps are lowered",
		"model.mlp":       "model.mlp: dense layers with ReLU between them\n",
		"stop":            "stop.virtual_seconds: virtual time to run",
	} {
		if text, ok := Explain(path); !ok || !strings.Contains(text, want) {
			t.Errorf("%s: %q, want it to say %q", path, text, want)
		}
	}
	if _, ok := Explain("nothing"); ok {
		t.Error("a key that does not exist is explained")
	}
}
