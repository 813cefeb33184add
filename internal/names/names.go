package names

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// MaxDevices is how many real devices can take part in a run.
const MaxDevices = 1 << 12

const (
	maxToken     = 64
	tokenLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
)

// CheckToken returns an error unless s can stand in a NATS subject as one token: 1 to 64
// of A-Z, a-z, 0-9, "-" and "_". kind says in the message what s names, such as "run".
func CheckToken(kind, s string) error {
	if s == "" || len(s) > maxToken {
		return fmt.Errorf("%s %q has %d characters, want 1 to %d", kind, s, len(s), maxToken)
	}
	if rest := strings.TrimLeft(s, tokenLetters); rest != "" {
		return fmt.Errorf("%s %q holds %q; letters, digits, - and _ can stand in a subject", kind, s, []rune(rest)[0])
	}
	return nil
}

// CheckDevice returns an error unless id can be the id of a device: a token that starts with a
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

// CheckAddress returns an error unless s is an address, host:port, or empty. Port 0 stands for any free port.
func CheckAddress(s string) error {
	if s == "" {
		return nil
	}
	i := strings.LastIndexByte(s, ':')
	host, bracketed := strings.CutPrefix(s[:max(i, 0)], "[")
	_, err := netip.ParseAddr(strings.TrimSuffix(host, "]"))
	if i < 0 ||
		bracketed && (err != nil || !strings.HasSuffix(host, "]")) ||
		!bracketed && strings.ContainsAny(host, "[]:") {
		return fmt.Errorf("%q is not an address (host:port, e.g. localhost:9090)", s)
	}
	if _, err := strconv.ParseUint(s[i+1:], 10, 16); err != nil {
		return fmt.Errorf("%q is not an address: port %q is not a number from 0 to 65535", s, s[i+1:])
	}
	return nil
}

// CheckURL returns an error unless s is the URL of a NATS server, or of several with
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

// Host returns the host in an address, host:port or [host]:port. It is empty if the address names none.
func Host(address string) string {
	host := address[:max(0, strings.LastIndexByte(address, ':'))]
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// Loopback reports whether a server that listens on the address can be reached from its own machine alone.
func Loopback(address string) bool {
	host := Host(address)
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// Redacted returns a URL, or several with commas between them, without users and passwords.
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

// CheckName returns an error unless s can be the name of a run, which is one token of a NATS subject.
func CheckName(s string) error {
	if !nameForm.MatchString(s) {
		return fmt.Errorf(
			"%q is not a name (1 to 64 letters, digits, hyphens and underscores, the first a letter or digit)",
			s,
		)
	}
	return nil
}

// tagForm is the form of a tag. Its classes of letters make it large, so it is compiled when a tag is first
// checked.
var tagForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[\pL\pN][\pL\pN._:=/+-]{0,63}$`)
})

// CheckTag returns an error unless s can be a tag of a run, which is one word, as lists show it.
func CheckTag(s string) error {
	if !tagForm().MatchString(s) {
		return fmt.Errorf("%q is not a tag (1 to 64 letters, digits and . _ : = / + -, the first a letter or digit)", s)
	}
	return nil
}

// Nearest returns the known word that a mistyped one most likely means, by edit distance, or "" if none is
// near. A mistyped word that is almost the beginning of a known one counts as near, whatever is missing. Of
// equally near words the first is returned.
func Nearest(mistyped string, known []string) string {
	mistyped = strings.ToLower(mistyped)
	best := ""
	bestDistance := 1 + max(1, len(mistyped)/3)
	for _, word := range known {
		distance := editDistance(mistyped, strings.ToLower(word))
		if n := len(mistyped); n >= minPrefix && n < len(word) {
			prefixDistance := editDistance(mistyped, strings.ToLower(word[:n]))
			if prefixDistance <= 1 {
				distance = min(distance, prefixDistance+1)
			}
		}
		if distance < bestDistance {
			best = word
			bestDistance = distance
		}
	}
	return best
}

// minPrefix is how long a mistyped word is at least to count as the beginning of a known one.
const minPrefix = 4

// editDistance returns the number of single-letter edits that turn a into b: insertions, deletions,
// replacements, and swaps of neighbours (optimal string alignment). It is 64 for words of more than 64
// letters.
func editDistance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		// No known word is as long, so nothing is near.
		return 64
	}
	// distances[i][j] is the distance of the first i letters of a from the first j letters of b.
	var distances [65][65]int
	for i := range len(a) + 1 {
		for j := range len(b) + 1 {
			if i == 0 || j == 0 {
				distances[i][j] = i + j
				continue
			}
			distances[i][j] = min(distances[i-1][j]+1, distances[i][j-1]+1, distances[i-1][j-1]+1)
			if a[i-1] == b[j-1] {
				distances[i][j] = distances[i-1][j-1]
			}
			if i > 1 &&
				j > 1 &&
				a[i-1] == b[j-2] &&
				a[i-2] == b[j-1] {
				distances[i][j] = min(distances[i][j], distances[i-2][j-2]+1)
			}
		}
	}
	return distances[len(a)][len(b)]
}

// Of returns a text of each element of a list, such as its name.
func Of[T any](list []T, name func(T) string) []string {
	texts := make([]string, len(list))
	for i, one := range list {
		texts[i] = name(one)
	}
	return texts
}
