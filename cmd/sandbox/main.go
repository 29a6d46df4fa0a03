// Command sandbox is drover's demo: a whole cloud and a cluster on one machine.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/drover-project/drover/test/sandbox"
	"github.com/drover-project/drover/test/sandbox/screen"
)

func main() {
	// Client libraries write warnings to standard error, which would garble the table.
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// With a handler for SIGPIPE, a closed pipe causes an error of the write and does not end the
	// program; the screen handles the error.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	o := &sandbox.Options{}
	root := &cobra.Command{
		Use: "sandbox", Short: "A whole cloud and cluster on one machine, with drover between them",
		SilenceUsage: true, SilenceErrors: true,
	}
	f := root.PersistentFlags()
	f.StringVar(&o.Dir, "dir", "", "folder for keys, logs and data, removed at the end; empty: a new temporary one")
	f.StringVar(&o.Drover, "drover", "", "drover's binary; empty: the one beside this program, else it is built")
	f.StringVar(&o.GRPCAddress, "grpc-address", "127.0.0.1:0", "where drover listens for the autoscaler; port 0: any that is free")
	f.StringVar(&o.MetricsAddress, "metrics-address", "127.0.0.1:0", "where drover shows its metrics")
	f.StringVar(&o.HealthAddress, "health-address", "127.0.0.1:0", "where drover shows its health")
	f.DurationVar(&o.BootTime, "boot-time", 3*time.Second, "how long a simulated server boots")
	f.DurationVar(&o.CloudControllerInterval, "cloud-controller-interval", time.Second, "how often the stand-in for the cloud-controller-manager looks at nodes: so long may a new one wait until it is initialized")
	f.StringSliceVar(&o.DroverFlags, "drover-flag", nil, "a further flag for drover; may be repeated")
	f.StringSliceVar(&o.AutoscalerFlags, "autoscaler-flag", nil, "a further flag for a real cluster-autoscaler; may be repeated")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return fmt.Errorf("%w; see %s --help", err, c.CommandPath()) })
	root.AddCommand(
		&cobra.Command{
			Use: "demo", Short: "Start everything, go through the scenario, and in a terminal stay until Ctrl-C", Args: cobra.NoArgs,
			RunE: func(c *cobra.Command, _ []string) error { return locked(c.Context(), o, demo) },
		},
		&cobra.Command{
			Use: "up", Short: "Start everything and stay until Ctrl-C", Args: cobra.NoArgs,
			RunE: func(c *cobra.Command, _ []string) error { return locked(c.Context(), o, up) },
		},
		trialsCommand(o),
	)
	return root
}

// locked starts a sandbox, calls do, and stops the sandbox in any case. It returns an error when this user already runs a
// sandbox.
func locked(ctx context.Context, o *sandbox.Options, do func(context.Context, *sandbox.Sandbox, *screen.Screen) error) error {
	release, err := sandbox.Lock()
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := screen.New(os.Stdout, cancel)
	o.Log = out
	if err := chooseParts(o); err != nil {
		return err
	}
	s, err := sandbox.Start(ctx, *o)
	if err != nil {
		return interrupted(ctx, err)
	}
	defer s.Stop()
	return interrupted(ctx, do(ctx, s, out))
}

// chooseParts sets the paths of the autoscaler and, unless a flag names it, of drover.
func chooseParts(o *sandbox.Options) (err error) {
	if o.Drover == "" {
		o.Drover = beside("drover")
	}
	o.Autoscaler, err = sandbox.FindAutoscaler()
	return err
}

// interrupted returns err, or the error "interrupted" instead of it when Ctrl-C has ended ctx.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return err
}

// beside returns the path of a program in the directory of this program; empty when there is no such file.
func beside(name string) string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	path := filepath.Join(filepath.Dir(self), name)
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return ""
	}
	return path
}
