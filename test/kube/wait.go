package kube

import (
	"context"
	"fmt"
	"net"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	// startTimeout is how long a component may take until it is ready. It is long enough for a machine that is also
	// busy with other work.
	startTimeout = 2 * time.Minute
	probeEvery   = 50 * time.Millisecond
	probeTimeout = 2 * time.Second
)

// probe checks a condition once. It returns nil when the condition holds.
type probe func(ctx context.Context) error

// await repeats a probe until the probe returns nil, a component has ended, or time is up.
func (c *Cluster) await(ctx context.Context, component, what string, look probe) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not within %s", startTimeout))
	defer cancel()
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	for {
		once, done := context.WithTimeout(ctx, probeTimeout)
		last := look(once)
		done()
		if last == nil {
			return nil
		}
		if err := c.Err(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s to %s: %w (last: %w); last lines of its log:\n%s",
				component, what, context.Cause(ctx), last, c.tail(component))
		case <-ticker.C:
		}
	}
}

func (c *Cluster) tail(component string) []byte {
	for _, p := range c.processes {
		if p.name == component {
			return p.tail()
		}
	}
	return nil
}

// apiServerReady returns a probe that succeeds when kube-apiserver reports that it is ready.
func (c *Cluster) apiServerReady() probe {
	return func(ctx context.Context) error {
		client, err := c.client()
		if err != nil {
			return err
		}
		// The client's own retries would each wait a second.
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").MaxRetries(0).Do(ctx).Error()
	}
}

// listens returns a probe that succeeds when a process listens on a loopback port.
func listens(port int) probe {
	return func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", local(port))
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// defaultAccount returns a probe that succeeds when the namespace "default" has its service account, which pods need.
func (c *Cluster) defaultAccount() probe {
	return func(ctx context.Context) error {
		client, err := c.client()
		if err != nil {
			return err
		}
		_, err = client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	}
}

func (c *Cluster) client() (kubernetes.Interface, error) {
	return kubernetes.NewForConfig(rest.CopyConfig(c.Config))
}
