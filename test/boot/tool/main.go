// Command tool is the only program in the container images of test/boot. As /pause it holds a pod's sandbox; under any
// other name it answers HTTP on port 8080 with the pod's name.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if os.Args[0] != "/pause" {
		server := &http.Server{Addr: ":8080", Handler: http.HandlerFunc(hello), ReadHeaderTimeout: time.Minute}
		go func() {
			fmt.Fprintln(os.Stderr, server.ListenAndServe())
			stop()
		}()
	}
	<-ctx.Done()
}

func hello(w http.ResponseWriter, _ *http.Request) {
	name, err := os.Hostname()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = fmt.Fprintf(w, "hello from %s\n", name)
}
