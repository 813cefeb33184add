package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Fetcher downloads archives. The zero value is ready; it may be used from
// several goroutines when its callbacks may.
type Fetcher struct {
	// Stall is how long no byte may come before the request is made again; 0 means 30 s.
	Stall time.Duration
	// Retries is how many requests in a row may bring nothing new; 0 means 5.
	Retries int
	// Backoff is the pause before the second attempt, which doubles up to 30 s; 0 means 1 s.
	Backoff time.Duration
	// Progress is called when a transfer starts, when it ends, and several times a second in between. It
	// may be nil.
	Progress func(Progress)
	// Notice takes a line for each failure after which the download is tried again. It may be nil.
	Notice func(string)

	// every is the time between two calls of Progress; 0 means 100 ms.
	every time.Duration
}

// Limits of one Fetch, whatever the servers do.
const (
	maxAttempts = 200
	maxBackoff  = 30 * time.Second
)

// Progress is the state of a download.
type Progress struct {
	// Archive is the name of the archive.
	Archive string
	// Done is the number of bytes on disk.
	Done int64
	// Total is the size of the whole archive in bytes; -1 where it is not known.
	Total int64
	// Start is the number of bytes on disk when the present transfer began.
	Start int64
	// Elapsed is the wall time since the present transfer began.
	Elapsed time.Duration
}

// Rate returns the rate of the present transfer in bytes a second; 0 at its start.
func (p Progress) Rate() float64 {
	if p.Elapsed <= 0 {
		return 0
	}
	return float64(p.Done-p.Start) / p.Elapsed.Seconds()
}

// Result says where an archive is.
type Result struct {
	// Path is the path of the file.
	Path string
	// Bytes is its size.
	Bytes int64
	// Resumed is how many of the bytes an earlier call had left.
	Resumed int64
	// Downloaded is how many bytes this call has added; 0 if the file was there already.
	Downloaded int64
}

// IncompleteError is a download that stopped, for whatever reason, and left
// what it has. The next Fetch continues it.
type IncompleteError struct {
	// Part is the path of the file that holds the bytes so far.
	Part string
	// Done is the number of bytes so far.
	Done int64
	// Total is the size of the whole file in bytes; -1 where it is not known.
	Total int64
	// Err is what stopped the download.
	Err error
}

// Error says why the download ended, and where it can go on from.
func (e *IncompleteError) Error() string { return e.Err.Error() + "; " + e.Progress() }

// Unwrap returns what interrupted the download.
func (e *IncompleteError) Unwrap() error { return e.Err }

// Progress says in words how many bytes are on disk, and where.
func (e *IncompleteError) Progress() string {
	size := ""
	if e.Total >= 0 {
		size = fmt.Sprintf(" of %d", e.Total)
	}
	return fmt.Sprintf("%d%s bytes are in %s, and the next call goes on from there", e.Done, size, e.Part)
}

// Fetch downloads an archive to a folder, which it makes. A file that is there
// and has the right checksum is left as it is; one that has another is refused.
//
// The bytes come to NAME.part and get their name when the checksum is right. A
// wrong one deletes them. Any other failure, ctx's end included, leaves them to
// the next call: its error is then an IncompleteError.
func (f *Fetcher) Fetch(ctx context.Context, a Archive, dir string) (r Result, err error) {
	defer func() {
		if err != nil {
			r = Result{}
			err = fmt.Errorf("fetch %s: %w", a.Name, err)
		}
	}()
	r.Path = filepath.Join(dir, a.File)
	switch found, err := os.Stat(r.Path); {
	case err == nil:
		r.Bytes = found.Size()
		return r, check(ctx, a.Sum, r.Path, "remove it, or fetch to another folder")
	case !errors.Is(err, fs.ErrNotExist):
		return r, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return r, err
	}
	p, err := openPartial(r.Path + ".part")
	if err != nil {
		return r, err
	}
	err = f.complete(ctx, a, p)
	// A file that was downloaded in pieces may mix two versions of the archive, so it is tried once from the
	// beginning.
	if err != nil && reasonIn(err).sum && p.inPieces {
		err = p.restart()
		if err == nil {
			err = f.complete(ctx, a, p)
		}
	}
	part := p.file.Name()
	// What is there is kept for the next call, except where its checksum is wrong.
	switch err = errors.Join(err, p.file.Close()); {
	case err != nil && p.size > 0 && !reasonIn(err).sum:
		return r, &IncompleteError{
			Part:  part,
			Done:  p.size,
			Total: p.total,
			Err:   err,
		}
	case err != nil:
		return r, errors.Join(err, os.RemoveAll(part))
	}
	r.Bytes = p.size
	r.Resumed = p.resumed
	r.Downloaded = p.size - p.resumed
	return r, os.Rename(part, r.Path)
}

// complete downloads what p lacks, writes it to the disk and compares the whole with the checksum of a.
func (f *Fetcher) complete(ctx context.Context, a Archive, p *partial) error {
	// A partial file that has the published size lacks nothing but the check of its sum.
	if p.size == 0 || p.size != a.Size {
		if err := f.download(ctx, a, p); err != nil {
			return err
		}
	}
	if err := p.file.Sync(); err != nil {
		return err
	}
	return check(ctx, a.Sum, p.file.Name(), "it is deleted")
}

// download tries the URLs of a in their order until p is whole. If none can complete it, the error joins
// those of all URLs; it ends early when ctx does, or when the disk fails.
func (f *Fetcher) download(ctx context.Context, a Archive, p *partial) error {
	attempts := 0
	var failed []error
	for _, url := range a.URLs {
		err := f.attempt(ctx, a, url, p, &attempts)
		if err == nil || ctx.Err() != nil || reasonIn(err).disk {
			return err
		}
		failed = append(failed, fmt.Errorf("%s: %w", url, err))
	}
	return errors.Join(failed...)
}

// attempt requests p from one URL, with pauses that double, until p is whole, a failure is final, or
// too many requests in a row have brought nothing new. attempts counts the failed requests to all URLs.
func (f *Fetcher) attempt(ctx context.Context, a Archive, url string, p *partial, attempts *int) error {
	// furthest is the greatest size so far. A request makes progress only if it gets beyond that.
	furthest := p.size
	backoff := cmp.Or(f.Backoff, time.Second)
	wait := backoff
	for idle := 0; ; *attempts++ {
		err := f.transfer(ctx, a, url, p)
		cause := reasonIn(err)
		isFinal := cause.permanent || cause.disk
		if err == nil || ctx.Err() != nil || isFinal {
			return err
		}
		if p.size > furthest {
			furthest = p.size
			idle = 0
			wait = backoff
		} else {
			idle++
		}
		if idle > cmp.Or(f.Retries, 5) || *attempts >= maxAttempts {
			return fmt.Errorf("%w (tried %d times)", err, *attempts+1)
		}
		// The server may ask for a longer pause than ours.
		pause := max(wait, cause.wait)
		if f.Notice != nil {
			f.Notice(fmt.Sprintf("%s: %s: %v; going on from byte %d in %v", a.Name, url, err, p.size, pause))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		wait = min(2*wait, maxBackoff)
	}
}

// reporter returns the function that a transfer of archive a calls whenever bytes have come. It calls
// f.Progress for the first call and for the last byte, and for the calls between at most once in each
// interval of f.every (100 ms if that is 0).
func (f *Fetcher) reporter(a Archive, p *partial) func() {
	if f.Progress == nil {
		return func() {}
	}
	begin := time.Now()
	last := time.Time{}
	start := p.size
	return func() {
		now := time.Now()
		total := p.total
		if now.Sub(last) < cmp.Or(f.every, 100*time.Millisecond) && p.size != total {
			return
		}
		last = now
		if total < 0 {
			total = cmp.Or(a.Size, -1)
		}
		f.Progress(Progress{
			Archive: a.Name,
			Done:    p.size,
			Total:   total,
			Start:   start,
			Elapsed: now.Sub(begin),
		})
	}
}
