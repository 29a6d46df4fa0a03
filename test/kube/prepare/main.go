// Command prepare builds the control plane that the integration tests start. Otherwise the first test would take
// minutes without an explanation.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/drover-project/drover/test/kube"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if _, err := kube.Binaries(ctx, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "prepare:", err)
		os.Exit(1)
	}
}
