package fetch

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// reason says what a failed attempt means; the zero value is worth another one.
type reason struct {
	error
	gone bool          // final for this URL
	disk bool          // final
	sum  bool          // the file is not what its publisher says
	wait time.Duration // before another attempt, as the server asks
}

func (r reason) Unwrap() error { return r.error }

// reasonOf is the reason in an error's tree, or none.
func reasonOf(err error) (r reason) {
	errors.As(err, &r)
	return r
}

// onDisk is a failure of the disk, or nil.
func onDisk(err error) error {
	if err == nil {
		return nil
	}
	return reason{error: err, disk: true}
}

func gone(format string, args ...any) error {
	return reason{error: fmt.Errorf(format, args...), gone: true}
}

// maxArchive bounds a file whose size is not published.
const maxArchive = 1 << 36

// transfer makes one request and appends what comes to p, which is whole when
// the error is nil.
func (f *Fetcher) transfer(ctx context.Context, a Archive, from string, p *partial) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := cmp.Or(f.Stall, 30*time.Second)
	alarm := time.AfterFunc(stall, func() { cancel(fmt.Errorf("nothing came for %v", stall)) })
	defer alarm.Stop()

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return gone("%w", err)
	}
	request.Header.Set("User-Agent", "fedpace")
	request.Header.Set("Accept-Encoding", "identity") // else the client unpacks what is to be stored
	if p.size > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", p.size))
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return failure(ctx, err)
	}
	defer response.Body.Close()
	done, err := p.begin(a, response)
	if err != nil || done {
		return err
	}
	report := f.reporter(a, p)
	report()
	limit := cmp.Or(a.Size, maxArchive)
	_, err = io.Copy(writer(func(b []byte) (int, error) {
		alarm.Reset(stall)
		if p.size+int64(len(b)) > limit {
			return 0, gone("sends more than %d bytes", limit)
		}
		n, err := p.file.Write(b)
		p.size += int64(n)
		report()
		return n, onDisk(err)
	}), response.Body)
	switch {
	case err != nil:
		return failure(ctx, err)
	case p.size < p.total:
		return fmt.Errorf("broke off at %d of %d bytes", p.size, p.total)
	}
	return nil
}

type writer func(b []byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

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
		return gone("%w", err)
	}
	return err
}

// begin makes p ready for the body of a response, or says that p is whole.
// RFC 9110, section 14.
func (p *partial) begin(a Archive, r *http.Response) (done bool, err error) {
	switch r.StatusCode {
	case http.StatusOK:
		if err := a.fits(r.ContentLength); err != nil {
			return false, err
		}
		err := p.restart()
		p.total = r.ContentLength
		return false, onDisk(err)

	case http.StatusPartialContent:
		first, total, err := parseContentRange(r.Header.Get("Content-Range"))
		if err == nil && first != p.size {
			err = fmt.Errorf("sends bytes from %d, not from %d", first, p.size)
		}
		if err == nil && total >= 0 && p.total >= 0 && total != p.total {
			err = errors.New("has another version now")
		}
		if err != nil {
			return false, p.again(err)
		}
		p.total, p.pieces = max(p.total, total), true
		return false, a.fits(p.total)

	case http.StatusRequestedRangeNotSatisfiable:
		if p.size > 0 && r.Header.Get("Content-Range") == fmt.Sprintf("bytes */%d", p.size) {
			return true, nil
		}
		return false, p.again(fmt.Errorf("has no bytes from %d on", p.size))
	}
	later := []int{http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests}
	if r.StatusCode >= 500 || slices.Contains(later, r.StatusCode) {
		return false, reason{error: errors.New("answers " + r.Status), wait: retryAfter(r.Header)}
	}
	return false, gone("answers %s", r.Status)
}

// fits compares a size with the published one.
func (a Archive) fits(total int64) error {
	if a.Size > 0 && total >= 0 && total != a.Size {
		return gone("has a file of %d bytes, want %d", total, a.Size)
	}
	return nil
}

// again drops what is there, so that the next attempt starts anew.
func (p *partial) again(why error) error {
	return cmp.Or(onDisk(p.restart()), why)
}

// maxWait bounds what a server may ask for.
const maxWait = time.Minute

func retryAfter(h http.Header) time.Duration {
	seconds, _ := strconv.ParseUint(h.Get("Retry-After"), 10, 16) // 0 for a date
	return min(time.Duration(seconds)*time.Second, maxWait)
}

var contentRange = regexp.MustCompile(`^bytes (\d+)-(\d+)/(\d+|\*)$`)

// parseContentRange reads "bytes first-last/total"; total is -1 for "*".
func parseContentRange(s string) (first, total int64, err error) {
	parts := contentRange.FindStringSubmatch(s)
	var last int64
	if parts != nil {
		var errs [3]error
		first, errs[0] = strconv.ParseInt(parts[1], 10, 64)
		last, errs[1] = strconv.ParseInt(parts[2], 10, 64)
		total, errs[2] = strconv.ParseInt(strings.Replace(parts[3], "*", "-1", 1), 10, 64)
		err = errors.Join(errs[:]...)
	}
	if parts == nil || err != nil || last < first || total != -1 && total <= last {
		return 0, 0, fmt.Errorf("Content-Range %.60q, want bytes first-last/total", s)
	}
	return first, total, nil
}
