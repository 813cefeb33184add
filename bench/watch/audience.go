package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	viewers     = 20
	scrapeEvery = time.Second
)

// audience watches one run until it leaves.
type audience struct {
	stop            context.CancelFunc
	there           sync.WaitGroup
	scrapes, frames atomic.Int64
}

// watch starts a scraper, viewers, and one more who asks and never reads.
func watch(base string) *audience {
	ctx, stop := context.WithCancel(context.Background())
	a := &audience{stop: stop}
	a.there.Go(func() { a.scrape(ctx, base+"/metrics") })
	for range viewers {
		a.there.Go(func() { a.view(ctx, base+"/events") })
	}
	a.there.Go(func() { stare(ctx, strings.TrimPrefix(base, "http://")) })
	return a
}

// leave ends all of it and returns how many scrapes and frames there were.
func (a *audience) leave() (scrapes, frames int) {
	a.stop()
	a.there.Wait()
	return int(a.scrapes.Load()), int(a.frames.Load())
}

// scrape asks as Prometheus does, with native histograms.
func (a *audience) scrape(ctx context.Context, address string) {
	for {
		request, err := http.NewRequestWithContext(ctx, "GET", address, nil)
		if err != nil {
			panic("watch: " + err.Error())
		}
		request.Header.Set("Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
		if response, err := http.DefaultClient.Do(request); err == nil { // else the run is over, or about to be
			n, _ := io.Copy(io.Discard, response.Body)
			response.Body.Close()
			if response.StatusCode == http.StatusOK && n > 0 {
				a.scrapes.Add(1)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(scrapeEvery):
		}
	}
}

// view follows the page's events and counts them.
func (a *audience) view(ctx context.Context, address string) {
	request, err := http.NewRequestWithContext(ctx, "GET", address, nil)
	if err != nil {
		panic("watch: " + err.Error())
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return // the run is over
	}
	defer response.Body.Close()
	for r := bufio.NewReaderSize(response.Body, 1<<16); ; {
		line, err := r.ReadSlice('\n')
		if bytes.HasPrefix(line, []byte("data:")) {
			a.frames.Add(1)
		}
		if err != nil && err != bufio.ErrBufferFull {
			return
		}
	}
}

// stare asks for the events and never reads one.
func stare(ctx context.Context, address string) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return // the run is over
	}
	defer c.Close()
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(4 << 10) // only makes it fill sooner
	}
	fmt.Fprintf(c, "GET /events HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\n\r\n", address)
	<-ctx.Done()
}
