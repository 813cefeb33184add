package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Failures of one attempt. Any other one is worth another attempt.
type (
	// goneError is final for this URL.
	goneError struct{ error }
	// diskError is final.
	diskError struct{ error }
	// busyError asks to wait.
	busyError struct {
		error
		wait time.Duration
	}
)

func (e goneError) Unwrap() error { return e.error }
func (e diskError) Unwrap() error { return e.error }
func (e busyError) Unwrap() error { return e.error }

// maxArchive bounds a file whose size is not published.
const maxArchive = 1 << 36

// transfer makes one request and appends what comes to p, which is whole when
// the error is nil.
func (f *Fetcher) transfer(ctx context.Context, a Archive, from string, p *partial, report func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := f.stall()
	alarm := time.AfterFunc(stall, func() { cancel(fmt.Errorf("nothing came for %v", stall)) })
	defer alarm.Stop()

	if p.size > 0 && (p.of.URL != from || p.of.Validator == "") {
		if err := p.restart(unknown); err != nil {
			return diskError{err}
		}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return goneError{err}
	}
	request.Header.Set("User-Agent", "fedpace")
	request.Header.Set("Accept-Encoding", "identity") // else the client unpacks what is to be stored
	if p.size > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", p.size))
		request.Header.Set("If-Range", p.of.Validator)
	}
	response, err := f.client().Do(request)
	if err != nil {
		return failure(ctx, err)
	}
	defer response.Body.Close()
	done, err := p.begin(a, from, response)
	if err != nil || done {
		return err
	}
	report()
	limit := a.limit()
	buffer := make([]byte, 128<<10)
	for {
		n, err := response.Body.Read(buffer)
		if n > 0 {
			alarm.Reset(stall)
			if p.size+int64(n) > limit {
				return goneError{fmt.Errorf("sends more than %d bytes", limit)}
			}
			if err := p.write(buffer[:n]); err != nil {
				return diskError{err}
			}
			report()
		}
		switch {
		case err == io.EOF && p.size < p.of.Total:
			return fmt.Errorf("broke off at %d of %d bytes", p.size, p.of.Total)
		case err == io.EOF:
			return nil
		case err != nil:
			return failure(ctx, err)
		}
	}
}

func (a Archive) limit() int64 {
	if a.Size > 0 {
		return a.Size
	}
	return maxArchive
}

// failure is why a request ended: what cancelled it, or else err. A name that
// is unknown and a certificate that is wrong stay so.
func failure(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if e := (*url.Error)(nil); errors.As(err, &e) {
		err = e.Err // the caller names the URL
	}
	if e := (*net.DNSError)(nil); errors.As(err, &e) && e.IsNotFound || errors.As(err, new(*tls.CertificateVerificationError)) {
		return goneError{err}
	}
	return err
}

// begin makes p ready for the body of a response, or says that p is whole.
// RFC 9110, sections 13.1.5 (If-Range) and 14.
func (p *partial) begin(a Archive, from string, r *http.Response) (done bool, err error) {
	o := origin{URL: from, Validator: validator(r.Header), Total: r.ContentLength}
	switch r.StatusCode {
	case http.StatusOK:
		if err := a.fits(o.Total); err != nil {
			return false, err
		}
		if err := p.restart(o); err != nil {
			return false, diskError{err}
		}
		return false, nil

	case http.StatusPartialContent:
		first, total, err := parseContentRange(r.Header.Get("Content-Range"))
		if err == nil && first != p.size {
			err = fmt.Errorf("sends bytes from %d, not from %d", first, p.size)
		}
		if err == nil && (p.of.differs(r.Header) || total >= 0 && p.of.Total >= 0 && total != p.of.Total) {
			err = errors.New("has another version now")
		}
		if err != nil {
			return false, p.again(err)
		}
		p.of.Total = max(p.of.Total, total)
		return false, a.fits(p.of.Total)

	case http.StatusRequestedRangeNotSatisfiable:
		if total, ok := strings.CutPrefix(r.Header.Get("Content-Range"), "bytes */"); ok && p.size > 0 && total == strconv.FormatInt(p.size, 10) {
			return true, nil
		}
		return false, p.again(fmt.Errorf("has no bytes from %d on", p.size))

	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false, busyError{errors.New("answers " + r.Status), retryAfter(r.Header)}
	}
	err = errors.New("answers " + r.Status)
	if r.StatusCode >= 500 {
		return false, busyError{err, retryAfter(r.Header)}
	}
	return false, goneError{err}
}

// fits compares a size with the published one.
func (a Archive) fits(total int64) error {
	if a.Size > 0 && total >= 0 && total != a.Size {
		return goneError{fmt.Errorf("has a file of %d bytes, want %d", total, a.Size)}
	}
	return nil
}

// again drops what is there, so that the next attempt starts anew.
func (p *partial) again(why error) error {
	if err := p.restart(unknown); err != nil {
		return diskError{err}
	}
	return why
}

// validator is what may stand in If-Range: a strong entity tag or a date.
func validator(h http.Header) string {
	if tag := h.Get("ETag"); tag != "" && !strings.HasPrefix(tag, "W/") {
		return tag
	}
	return h.Get("Last-Modified")
}

// differs says that a response names another version.
func (o origin) differs(h http.Header) bool {
	now := h.Get("Last-Modified")
	if strings.HasPrefix(o.Validator, `"`) {
		now = h.Get("ETag")
	}
	return now != "" && now != o.Validator
}

// maxWait bounds what a server may ask for.
const maxWait = time.Minute

func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(min(seconds, 3600))*time.Second, maxWait)
}

// parseContentRange reads "bytes first-last/total"; total is -1 for "*".
func parseContentRange(s string) (first, total int64, err error) {
	bad := fmt.Errorf("Content-Range %.60q, want bytes first-last/total", s)
	of, ok := strings.CutPrefix(s, "bytes ")
	span, size, ok2 := strings.Cut(of, "/")
	from, to, ok3 := strings.Cut(span, "-")
	if !ok || !ok2 || !ok3 {
		return 0, 0, bad
	}
	if first, err = digits(from); err != nil {
		return 0, 0, bad
	}
	last, err := digits(to)
	if err != nil || last < first {
		return 0, 0, bad
	}
	if size == "*" {
		return first, -1, nil
	}
	if total, err = digits(size); err != nil || total <= last {
		return 0, 0, bad
	}
	return first, total, nil
}

// digits reads a number without a sign.
func digits(s string) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	return int64(n), err
}
