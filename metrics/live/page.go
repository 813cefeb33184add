package live

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"time"
)

// The page's parts.
var (
	//go:embed page/live.html
	htmlText string
	//go:embed page/live.css
	styleText []byte
	//go:embed page/live.js
	scriptText []byte
)

// What the page's HTML names in its head for the live page, and what stands
// there in the file that a finished run leaves.
const headMark = "<!-- head -->"

var livePage = []byte(fill(`<link rel="stylesheet" href="live.css">
<script src="live.js" defer></script>`))

// fill puts the head in its place.
func fill(head string) string {
	before, after, found := strings.Cut(htmlText, headMark)
	if !found {
		panic("live: the page has no place for its head")
	}
	return before + head + after
}

// WritePage writes the page as it stands now, as one file that needs nothing
// else.
func (h *Hub) WritePage(w io.Writer) error {
	h.mu.Lock()
	whole := h.snapshot(0, time.Now())
	h.mu.Unlock()
	// encoding/json writes <, > and & as escapes, so no text ends the element.
	data := encode(whole)
	var head bytes.Buffer
	fmt.Fprintf(&head, `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src '%s'; style-src '%s'; img-src data:; base-uri 'none'; form-action 'none'">`,
		digest(scriptText), digest(styleText))
	fmt.Fprintf(&head, "\n<style>%s</style>", styleText)
	fmt.Fprintf(&head, "\n<script type=\"application/json\" id=\"snapshot\">%s</script>", data)
	fmt.Fprintf(&head, "\n<script>%s</script>", scriptText)
	_, err := io.WriteString(w, fill(head.String()))
	return err
}

// digest is how a policy names an inline text.
func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
