package kubelet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
)

// Options describe one simulated server.
type Options struct {
	// MetadataURL is the metadata service's base URL.
	MetadataURL string
	// InstanceID is the server's UUID, by which the metadata service knows who asks.
	InstanceID string
	// Capacity is what the machine has: cpu, memory, ephemeral-storage.
	Capacity corev1.ResourceList
	// Annotations are put on the Node at registration; a simulator of pods recognises its nodes by one.
	Annotations map[string]string
	// Console takes each line that the server's console shows. Default: dropped.
	Console func(line string)
	// Journal takes each line that a unit prints, whether the console shows it or not. Default: dropped.
	Journal func(line string)
	// Download is asked for each file that the setup downloads; its error is what curl prints. Default: all succeed.
	Download func(url string) error
	// ReadyAfter is how long the node takes from registration to Ready. Default: 0.
	ReadyAfter time.Duration
	// Heartbeat is how often the lease and the conditions are renewed. Default: 10 s.
	Heartbeat time.Duration
	// Rotate is how long a certificate is used before another is asked for under its name. Default: 80 % of its life, as
	// a kubelet does.
	Rotate time.Duration
	// Runs reports whether the server runs. While it does not, its kubelet does nothing, and goes on afterwards with what is on its
	// disk. Default: it always runs.
	Runs func() bool
	// Restarts returns how often somebody has started the kubelet again: it then registers its Node again, with the identity that is on its
	// disk. Default: never.
	Restarts func() int
	// Clock is the time. Default: the real one.
	Clock clock.Clock

	// printed takes each line that the kubelet prints.
	printed func(line string)
}

const (
	defaultHeartbeat = 10 * time.Second
	// kubeletUnit is what a boot must start.
	kubeletUnit = "kubelet.service"
	// restartAfter is how long systemd waits before it starts a failed kubelet again.
	restartAfter = time.Second
	// settleEvery is how often a node that is not settled yet (not Ready, no addresses) looks again.
	settleEvery = 250 * time.Millisecond
)

func (o Options) withDefaults() Options {
	if o.Console == nil {
		o.Console = func(string) {}
	}
	if o.Journal == nil {
		o.Journal = func(string) {}
	}
	if o.Download == nil {
		o.Download = func(string) error { return nil }
	}
	if o.printed == nil {
		o.printed = o.Journal
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = defaultHeartbeat
	}
	if o.Runs == nil {
		o.Runs = func() bool { return true }
	}
	if o.Restarts == nil {
		o.Restarts = func() int { return 0 }
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o
}

// Run is the kubelet of one server that has just booted. It returns when ctx ends, which is the server's end: nothing
// is cleaned up then. An error means that the user data was of no use; everything else is said on the console and tried
// again, as systemd would.
func Run(ctx context.Context, o Options) error {
	o = o.withDefaults()
	files, s, err := boot(ctx, o)
	if err != nil {
		// cloud-init prints to the console.
		o.Console("cloud-init: " + err.Error())
		return err
	}
	h := &host{options: o, boot: files}
	o.printed = func(line string) { h.print(kubeletUnit, line) }
	var reporter sync.WaitGroup
	reporter.Go(func() { h.report(ctx) })
	defer reporter.Wait()
	if !h.setup(ctx, s.version) {
		return nil
	}
	o.Console("[  OK  ] Started " + kubeletUnit + ".")
	o.printed(fmt.Sprintf("version %s starts as node %s", s.version, s.name))
	for ctx.Err() == nil {
		if err := serve(ctx, o, s, h.hasJoined); err != nil && !errors.Is(err, context.Canceled) {
			o.printed(err.Error())
		}
		sleep(ctx, o.Clock, restartAfter)
	}
	return nil
}

// boot does what cloud-init does: fetch the user data and write its files.
func boot(ctx context.Context, o Options) (*Boot, *settings, error) {
	service := metadata{url: o.MetadataURL, instanceID: o.InstanceID}
	id, err := service.identity(ctx)
	if err != nil {
		return nil, nil, err
	}
	raw, err := service.userData(ctx)
	if err != nil {
		return nil, nil, err
	}
	files, err := ParseUserData(raw)
	if err != nil {
		return nil, nil, err
	}
	s, err := readSettings(files, id)
	if err != nil {
		return nil, nil, err
	}
	if !slices.Contains(files.Units, kubeletUnit) {
		return nil, nil, fmt.Errorf("starting the kubelet: the user data starts no %s", kubeletUnit)
	}
	return files, s, nil
}

// serve is one run of the kubelet's process: join, register, then keep the node alive.
func serve(ctx context.Context, o Options, s *settings, joined func()) error {
	own, err := join(ctx, o, s)
	if err != nil {
		return err
	}
	n, err := newNode(o, s)
	if err != nil {
		return err
	}
	if err := n.use(own); err != nil {
		return err
	}
	restarts := o.Restarts()
	if err := n.register(ctx); err != nil {
		return err
	}
	joined()
	o.printed("node " + s.name + " is registered")
	for ctx.Err() == nil {
		if !o.Runs() {
			sleep(ctx, o.Clock, settleEvery)
			continue
		}
		if now := o.Restarts(); now != restarts && n.restart(ctx) == nil {
			restarts = now
		}
		wait := o.Heartbeat
		if err := n.beat(ctx); err != nil && ctx.Err() == nil {
			o.printed(err.Error())
		}
		wait = min(wait, n.rotate(ctx))
		if !n.settled() {
			wait = min(wait, settleEvery)
		}
		sleep(ctx, o.Clock, wait)
	}
	return nil
}

func sleep(ctx context.Context, c clock.Clock, d time.Duration) {
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
}
