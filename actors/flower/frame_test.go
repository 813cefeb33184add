package flower

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"fedpace/internal/child"
)

// Frames come back as they were written, one after another.
func TestFrame_RoundTrip(t *testing.T) {
	var pipe bytes.Buffer
	large := bytes.Repeat([]byte("\n{"), 100_000)
	for _, blobs := range [][][]byte{nil, {nil}, {[]byte("one"), large}} {
		if err := writeFrame(&pipe, nil, map[string]any{"ask": "nodes"}, blobs); err != nil {
			t.Fatal(err)
		}
	}
	r := bufio.NewReaderSize(&pipe, 16)
	for _, want := range []int{0, 1, 2} {
		var header request
		blobs, err := readFrame(r, nil, &header)
		if err != nil || header.Ask != "nodes" || len(blobs) != want {
			t.Fatalf("%+v with %d blobs (%v), want %d", header, len(blobs), err, want)
		}
		if want == 2 && !bytes.Equal(blobs[1], large) {
			t.Error("a large blob is another one")
		}
	}
	if _, err := readFrame(r, nil, new(request)); !errors.Is(err, io.EOF) {
		t.Errorf("%v at the end", err)
	}
}

// What is no frame is an error, and takes no memory that is not there.
func TestFrame_Damaged(t *testing.T) {
	for name, text := range map[string]string{
		"no end of a line":  `{"ask":"nodes"`,
		"no JSON":           "ask\n",
		"a negative length": `{"blobs":[-1]}` + "\n",
		"a huge length":     `{"blobs":[99999999999999]}` + "\n",
		"a short blob":      `{"blobs":[5]}` + "\nabc",
		"no memory":         `{"blobs":[5],"shared":true}` + "\nabcde",
	} {
		if _, err := readFrame(bufio.NewReader(strings.NewReader(text)), nil, new(request)); err == nil {
			t.Errorf("%s is no error", name)
		}
	}
}

// Large blobs cross the memory once it is large enough, small ones the pipe. What was read stays as
// it was when the memory is used again. A process cannot claim more than the memory has.
func TestFrame_SharedMemory(t *testing.T) {
	memory, err := child.NewMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = memory.Close() }()
	var pipe bytes.Buffer
	r := bufio.NewReader(&pipe)
	var blobs [2][][]byte
	for i, letter := range []string{"a", "b"} {
		sent := [][]byte{[]byte(letter), bytes.Repeat([]byte(letter), 100_000)}
		if err := writeFrame(&pipe, memory, map[string]any{"ask": "push"}, sent); err != nil {
			t.Fatal(err)
		}
		if pipe.Len() > 1000 {
			t.Errorf("%d bytes in the pipe", pipe.Len())
		}
		blobs[i], err = readFrame(r, memory, new(request))
		if err != nil || len(blobs[i]) != 2 {
			t.Fatalf("%d blobs, %v", len(blobs[i]), err)
		}
	}
	for i, letter := range []byte("ab") {
		if bytes.Count(blobs[i][1], []byte{letter}) != 100_000 || string(blobs[i][0]) != string(letter) {
			t.Errorf("the blobs of frame %d were changed by a later one", i)
		}
	}
	size := len(memory.Bytes)
	fmt.Fprintf(&pipe, `{"blobs":[%d]}`+"\n", 10*size)
	pipe.Write(make([]byte, 10*size))
	if _, err := readFrame(r, memory, new(request)); err != nil || len(memory.Bytes) < 10*size {
		t.Errorf("%d bytes of memory after a frame that had no room there, %v", len(memory.Bytes), err)
	}
	fmt.Fprintf(&pipe, `{"blobs":[%d],"shared":true}`+"\n", len(memory.Bytes)+1)
	if _, err := readFrame(r, memory, new(request)); err == nil {
		t.Error("more bytes than the memory has are no error")
	}
}

// A push whose places do not fit is refused.
func TestRequest_Push(t *testing.T) {
	good := request{Messages: []Message{{Node: 1000}, {Node: 1001}}, Names: []string{"d"}}
	good.Contents = append(good.Contents, struct {
		Text   string             `json:"text"`
		Arrays []string           `json:"arrays"`
		Size   int64              `json:"size"`
		Config map[string]float64 `json:"config"`
	}{Text: "t", Arrays: []string{"d", "d"}, Size: 9})
	list, err := good.push([][]byte{[]byte("data")})
	if err != nil || list[0].Content != list[1].Content || len(list[0].Content.Arrays) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	for name, damage := range map[string]func(*request){
		"a place beyond the contents":  func(r *request) { r.Messages = []Message{{Place: 1}} },
		"an array that is not there":   func(r *request) { r.Names = []string{"other"} },
		"more digests than there are":  func(r *request) { r.Names = []string{"d", "e"} },
		"a place before the first one": func(r *request) { r.Messages = []Message{{Place: -1}} },
	} {
		bad := good
		damage(&bad)
		if _, err := bad.push([][]byte{[]byte("data")}); !errors.Is(err, errPush) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Replies that are too large for one frame come in several, in their order: each once the process has
// asked for more.
func TestServer_SeveralFrames(t *testing.T) {
	requests, requestWriter, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	replies, replyWriter, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	memory, err := child.NewMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = memory.Close() }()
	s := &Server{process: &process{requests: requestWriter, replies: bufio.NewReader(replies), memory: memory}}
	large := make([]byte, maxDelivered*5/8)
	list := []*Delivery{
		{Message: 1, Reply: &Reply{Content: [][]byte{[]byte("text"), large}}},
		{Message: 2, Code: codeOfTest, Reason: "it is gone"},
		{Message: 3, Reply: &Reply{Content: [][]byte{large}}},
	}
	answered := make(chan error, 1)
	go func() { answered <- s.AnswerReceive(t.Context(), 7, list) }()
	r := bufio.NewReader(requests)
	for _, want := range []string{
		`{"now":7,"replies":[{"reply":1,"parts":2,"error":0,"reason":""},{"reply":2,"parts":0,"error":5,"reason":"it is gone"}],"more":true}`,
		`{"now":7,"replies":[{"reply":3,"parts":1,"error":0,"reason":""}],"more":false}`,
	} {
		var header deliveries
		blobs, err := readFrame(r, memory, &header)
		if err != nil || len(blobs) != header.Replies[0].Parts {
			t.Fatalf("%d blobs, %v", len(blobs), err)
		}
		if got, _ := json.Marshal(header); string(got) != want {
			t.Errorf("%s, want %s", got, want)
		}
		if header.More {
			if err := writeFrame(replyWriter, memory, map[string]any{"ask": "more"}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// codeOfTest is a code of an error.
const codeOfTest = 5
