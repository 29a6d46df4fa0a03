// Command run starts a control plane for tests, prints the path of its administrator's kubeconfig,
// and stops the control plane on Ctrl-C:
//
//	go run ./test/kube/run [-dir folder] [-with component,…]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/drover-project/drover/test/kube"
)

// watchEvery is the interval at which the command checks whether a component has ended.
const watchEvery = time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "run:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	dir := flags.String("dir", "", "folder for the cluster's data, empty or absent; removed at the end (default: a temporary one)")
	with := flags.String("with", names(kube.All()), "components beside etcd and kube-apiserver, separated by commas")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: there are only flags", flags.Arg(0))
	}
	cluster, err := kube.Start(ctx, kube.Options{Dir: *dir, Components: components(*with), Log: os.Stderr})
	if err != nil {
		return err
	}
	defer cluster.Stop()
	if _, err := fmt.Fprintln(out, cluster.Kubeconfig); err != nil {
		return err
	}
	return watch(ctx, cluster)
}

// watch returns when ctx ends, or with the reason why a component ended.
func watch(ctx context.Context, cluster *kube.Cluster) error {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := cluster.Err(); err != nil {
				return err
			}
		}
	}
}

func names(components []kube.Component) string {
	all := make([]string, len(components))
	for i, c := range components {
		all[i] = string(c)
	}
	return strings.Join(all, ",")
}

func components(list string) []kube.Component {
	var all []kube.Component
	for name := range strings.SplitSeq(list, ",") {
		if name != "" {
			all = append(all, kube.Component(name))
		}
	}
	return all
}
