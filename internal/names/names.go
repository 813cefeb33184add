package names

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// MaxDevices is how many real devices can take part in a run.
const MaxDevices = 1 << 12

const (
	maxToken     = 64
	tokenLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
)

// CheckToken says whether s can stand in a NATS subject as one token: 1 to 64
// of A-Z, a-z, 0-9, "-" and "_". kind says what s names, as in "run".
func CheckToken(kind, s string) error {
	if s == "" || len(s) > maxToken {
		return fmt.Errorf("%s %q has %d characters, want 1 to %d", kind, s, len(s), maxToken)
	}
	if rest := strings.TrimLeft(s, tokenLetters); rest != "" {
		return fmt.Errorf("%s %q holds %q; letters, digits, - and _ can stand in a subject", kind, s, []rune(rest)[0])
	}
	return nil
}

// CheckDevice says whether id can be a device's: a token that starts with a
// letter, because numbers are simulated clients.
func CheckDevice(id string) error {
	if err := CheckToken("device", id); err != nil {
		return err
	}
	if b := id[0] | 0x20; b < 'a' || b > 'z' {
		return fmt.Errorf("device %q starts with %q, want a letter: numbers are simulated clients", id, id[0])
	}
	return nil
}

// CheckURL says whether s is the URL of a NATS server, or of several with
// commas between them. Its errors show no password.
func CheckURL(s string) error {
	for _, one := range strings.Split(s, ",") {
		problem := ""
		switch u, err := url.Parse(strings.TrimSpace(one)); {
		case err != nil:
			problem = "is not a URL"
		case !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme):
			problem = "is not a NATS server's URL"
		case u.Hostname() == "":
			problem = "names no host"
		}
		if problem != "" {
			return fmt.Errorf("%q %s (nats://host:4222)", Redacted(one), problem)
		}
	}
	return nil
}

// Redacted is a URL without the user and password in it.
func Redacted(s string) string {
	parts := strings.Split(s, ",")
	for i, one := range parts {
		if scheme, rest, ok := strings.Cut(one, "://"); ok {
			if at := strings.LastIndexByte(rest, '@'); at >= 0 {
				parts[i] = scheme + "://" + rest[at+1:]
			}
		}
	}
	return strings.Join(parts, ",")
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// CheckName keeps a run's name one token of a NATS subject.
func CheckName(s string) error {
	if !nameForm.MatchString(s) {
		return fmt.Errorf("%q is not a name (1 to 64 letters, digits, hyphens and underscores, the first a letter or digit)", s)
	}
	return nil
}
