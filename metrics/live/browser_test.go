package live_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"fedpace/internal/testkit/browsertest"
)

func TestMain(m *testing.M) { browsertest.Main(m) }

type tab = browsertest.Tab

func js[T any](b *tab, expression string) T { return browsertest.JS[T](b, expression) }

// shows checks that what the page shows is what a summary.json holds: to the
// bit in its attributes, and to four decimals in its texts.
func shows(t *testing.T, b *tab, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var s map[string]any
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, name := range []string{"rounds", "virtual_seconds", "sgd_steps", "training_loss", "validation_loss", "validation_accuracy"} {
		want, ok := s[name].(float64)
		if !ok { // of a run that trains nothing
			continue
		}
		compared++
		got, err := strconv.ParseFloat(js[string](b, fmt.Sprintf("document.getElementById('value-%s').dataset.value", name)), 64)
		if err != nil || got != want {
			t.Errorf("%s is shown as %v, summary.json has %v (%v)", name, got, want, err)
		}
		shown := js[string](b, fmt.Sprintf("document.getElementById('value-%s').innerText", name))
		switch name {
		case "rounds", "sgd_steps":
			if strings.ReplaceAll(shown, ",", "") != strconv.FormatFloat(want, 'f', -1, 64) {
				t.Errorf("%s reads %q, want %v", name, shown, want)
			}
		case "virtual_seconds":
		default:
			if number, err := strconv.ParseFloat(shown, 64); err != nil || math.Abs(number-want) > 0.00005001 {
				t.Errorf("%s reads %q, want %v", name, shown, want)
			}
		}
	}
	for name, want := range s["outcomes"].(map[string]any) {
		compared++
		if got := js[string](b, fmt.Sprintf("document.getElementById('outcome-%s').dataset.value", name)); got != strconv.FormatFloat(want.(float64), 'f', -1, 64) {
			t.Errorf("%s tasks are shown as %s, summary.json has %v", name, got, want)
		}
	}
	for _, name := range []string{"fingerprint", "model", "kernel"} {
		key := map[string]string{"model": "model_sha256"}[name]
		if key == "" {
			key = name
		}
		if want, ok := s[key].(string); ok && want != "" {
			compared++
			if got := js[string](b, fmt.Sprintf("document.getElementById('run-%s').innerText", name)); got != want {
				t.Errorf("%s is shown as %s, summary.json has %s", name, got, want)
			}
		}
	}
	if compared < 10 {
		t.Errorf("only %d numbers were compared", compared)
	}
}
