package client

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/machines/fault"
)

// listen starts a TCP server that answers each connection with this text, and returns its URL.
func listen(t *testing.T, text string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte(text))
			_ = c.(*net.TCPConn).CloseWrite()
		}
	}()
	return "http://" + l.Addr().String() + "/v3"
}

func TestErrorsDoNotShowAnswersThatAreNotFromOpenStack(t *testing.T) {
	answer := func(status, header, body string) string {
		return fmt.Sprintf("HTTP/1.1 %s\r\nX-Subject-Token: t\r\nConnection: close\r\nContent-Length: %d\r\n%s\r\n%s", status, len(body), header, body)
	}
	for name, text := range map[string]string{
		"an answer in another protocol is not shown":                                                "SSH-2.0-inner-word\r\n",
		"an answer with headers that cannot be parsed is not shown":                                 "HTTP/1.1 200 OK\r\ninner-word\r\n\r\n",
		"an HTTP status that is not a number is not shown":                                          "HTTP/1.1 inner-word\r\n\r\n",
		"an HTML page with status 200 is not shown":                                                 answer("200 OK", "Content-Type: text/html\r\n", "<html>inner-word</html>"),
		"a plain text with status 401 is not shown":                                                 answer("401 Unauthorized", "", "inner-word"),
		"the error of a Kubernetes API server is not shown":                                         answer("403 Forbidden", "", `{"kind":"Status","code":403,"message":"inner-word","status":"Failure"}`),
		"an error in an unknown JSON format is not shown":                                           answer("500 Oops", "", `{"error":{"message":"inner-word"}}`),
		"an unknown media type is not shown":                                                        answer("500 Oops", "Content-Type: text/inner-word\r\n", "."),
		"the field issued_at of a sign-in answer is not shown when it is not a time":                answer("201 Created", "", `{"token":{"issued_at":"inner-word","catalog":[]}}`),
		"the field project of a sign-in answer is not shown when it is a text instead of an object": answer("201 Created", "", `{"token":{"catalog":[],"project":"inner-word"}}`),
		"the target of a redirect is not shown":                                                     answer("302 Found", "Location: http://inner-word/\r\n", ""),
	} {
		t.Run(name+" (F-9)", func(t *testing.T) {
			endpoint := listen(t, text)
			s := newTestSession(t, Options{Configured: endpoint}, endpoint)
			_, err := s.Scope(t.Context())
			if err == nil || strings.Contains(err.Error(), "inner-word") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestEachStepOfARequestHasADeadline(t *testing.T) {
	for _, tt := range []struct {
		name, url string
		// serve writes the server's answer to c, the server's end of a connection.
		serve func(c net.Conn)
		most  time.Duration
	}{
		{"the TLS handshake fails within 10 seconds when the server sends nothing", "https://cloud.example/v3", func(net.Conn) {}, 10 * time.Second},
		{"the request fails within 55 seconds when the server sends no response headers", "http://cloud.example/v3", func(net.Conn) {}, 55 * time.Second},
		{"the request fails within 60 seconds when the server sends headers and only the first byte of the body", "http://cloud.example/v3", func(c net.Conn) {
			_, _ = fmt.Fprint(c, "HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{")
		}, 60 * time.Second},
	} {
		t.Run(tt.name+" (F-8)", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				road := newDialer("", Endpoints{}).transport()
				road.DialContext = func(context.Context, string, string) (net.Conn, error) {
					near, far := net.Pipe()
					go func() {
						r := bufio.NewReader(far)
						if strings.HasPrefix(tt.url, "http://") {
							req, err := http.ReadRequest(r)
							if err == nil {
								_, _ = io.Copy(io.Discard, req.Body)
							}
						}
						tt.serve(far)
						_, _ = io.Copy(io.Discard, r)
					}()
					return near, nil
				}
				defer road.CloseIdleConnections()
				s := newTestSession(t, Options{HTTP: road, Configured: tt.url}, tt.url)
				began := time.Now()
				_, err := s.Scope(t.Context())
				if took := time.Since(began); !fault.Is(err, fault.Transient) || took > tt.most || !strings.Contains(err.Error(), "no answer in time: cloud.example has 10s for the connection") {
					t.Errorf("got %v after %s, want an error after %s", err, took, tt.most)
				}
			})
		})
	}
}
