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

// Options configures one simulated server.
type Options struct {
	// MetadataURL is the base URL of the metadata service.
	MetadataURL string
	// InstanceID is the UUID by which the metadata service identifies the server.
	InstanceID string
	// Capacity holds the resources of the machine: cpu, memory, ephemeral-storage.
	Capacity corev1.ResourceList
	// Annotations are set on the Node at registration. kwok recognises the Nodes whose pods it simulates by one of these annotations.
	Annotations map[string]string
	// Console receives each line of the server's console. By default the lines are dropped.
	Console func(line string)
	// Journal receives each line that a unit prints, whether the console shows it or not. By default the lines are dropped.
	Journal func(line string)
	// Download is called for each file that the setup downloads. Its error is printed as curl's error. By default all downloads
	// succeed.
	Download func(url string) error
	// ReadyAfter is the time from registration to Ready. The default is 0.
	ReadyAfter time.Duration
	// Heartbeat is the interval at which the lease and the conditions are renewed. The default is 10 s.
	Heartbeat time.Duration
	// Rotate is the age at which a certificate is replaced. The default is 80 % of its lifetime, as in a kubelet.
	Rotate time.Duration
	// Runs reports whether the server runs. While it does not run, its kubelet does nothing. When it runs again, the kubelet
	// continues with the files on its disk. By default the server always runs.
	Runs func() bool
	// Fails reports whether the kubelet runs and its node cannot run pods, for example because the container runtime is down. The kubelet then
	// goes on reporting, with the condition Ready False. By default it never fails.
	Fails func() bool
	// Restarts returns how often the kubelet was restarted. After a restart it registers its Node again, with the identity on its
	// disk. Without a restart it does not register again, even if its Node is deleted. By default it is never restarted.
	Restarts func() int
	// Clock is the source of times. The default is the real clock.
	Clock clock.Clock

	// printed receives each line that the kubelet prints.
	printed func(line string)
}

const (
	defaultHeartbeat = 10 * time.Second
	// kubeletUnit is the unit that a boot must start.
	kubeletUnit = "kubelet.service"
	// restartAfter is how long systemd waits before it restarts a failed kubelet.
	restartAfter = time.Second
	// settleEvery is the interval of checks of a node that is not settled yet (not Ready, or without addresses).
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
	if o.Fails == nil {
		o.Fails = func() bool { return false }
	}
	if o.Restarts == nil {
		o.Restarts = func() int { return 0 }
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o
}

// Run runs the kubelet of one server that has just booted. It returns when ctx ends, as a kubelet does whose server is deleted: nothing is
// cleaned up. It returns an error when the user data is unusable. All other failures are printed to the console, and Run tries again, as
// systemd would.
func Run(ctx context.Context, o Options) error {
	o = o.withDefaults()
	files, s, err := boot(ctx, o)
	if err != nil {
		// cloud-init prints its errors to the console.
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

// boot does what cloud-init does: it fetches the user data and writes its files.
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

// serve is one run of the kubelet's process: it joins, registers its Node, and then keeps the Node alive.
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
