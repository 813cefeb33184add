package live

import (
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

// livePage is the page while the run goes on.
var livePage = []byte(fill(`<link rel="stylesheet" href="live.css">
<script src="live.js" defer></script>`))

// fill puts the styles and scripts, by name or whole, in their place.
func fill(head string) string { return strings.Replace(htmlText, "<!-- head -->", head, 1) }

// WritePage writes the page as it stands now, as one file that needs nothing else.
func (h *Hub) WritePage(w io.Writer) error {
	h.mu.Lock()
	whole := h.snapshot(time.Now())
	h.mu.Unlock()
	// encoding/json writes <, > and & as escapes, so no text ends the element.
	_, err := io.WriteString(w, fill(fmt.Sprintf(
		`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src '%s'; style-src '%s'; `+
			`img-src data:; base-uri 'none'; form-action 'none'">
<style>%s</style>
<script type="application/json" id="snapshot">%s</script>
<script>%s</script>`, digest(scriptText), digest(styleText), styleText, encode(whole), scriptText)))
	return err
}

// digest is how a policy names an inline text.
func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
