package handover

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// mostOfAnswer bounds how much of an answer is searched, in bytes.
const mostOfAnswer = 64 << 10

// unanswered is the text with which the API server refuses a write because it could not call a webhook.
var unanswered = []byte("failed calling webhook")

// Refusals receives a value when the API server has refused a write because a webhook did not answer. It holds at most one value.
type Refusals chan struct{}

// NewRefusals returns Refusals that hold no value.
func NewRefusals() Refusals { return make(Refusals, 1) }

// Watch returns a RoundTripper that reports refused writes and otherwise behaves like next. It reads only answers with the code 500.
func (r Refusals) Watch(next http.RoundTripper) http.RoundTripper { return refusalWatch{r, next} }

type refusalWatch struct {
	refusals Refusals
	next     http.RoundTripper
}

// RoundTrip sends the request.
func (w refusalWatch) RoundTrip(req *http.Request) (*http.Response, error) {
	answer, err := w.next.RoundTrip(req)
	if err != nil || answer.StatusCode != http.StatusInternalServerError {
		return answer, err
	}
	begin, err := io.ReadAll(io.LimitReader(answer.Body, mostOfAnswer))
	if err != nil {
		_ = answer.Body.Close()
		return nil, fmt.Errorf("reading an answer of the API server: %w", err)
	}
	answer.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(begin), answer.Body), answer.Body}
	if bytes.Contains(begin, unanswered) {
		select {
		case w.refusals <- struct{}{}:
		default:
		}
	}
	return answer, nil
}
