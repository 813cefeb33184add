package names

import "testing"

func TestPrintable_EscapesControlCharacters(t *testing.T) {
	for text, want := range map[string]string{
		"runs/demo":       "runs/demo",
		"a\x1b[31mred":    `a\x1b[31mred`,
		"new\nline":       `new\nline`,
		"Größe\t3":        "Größe\t3",
		"right\u202eleft": `right\u202eleft`,
	} {
		if got := Printable(text); got != want {
			t.Errorf("%q is printed as %q, want %q", text, got, want)
		}
	}
}

func TestCommonKey_NamesOfOtherTools(t *testing.T) {
	for name, want := range map[string]string{"lr": "schedule.eta0", "Learning-Rate": "schedule.eta0", "colour": ""} {
		if got := CommonKey(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}
