//go:build cluster

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/proto"
	"github.com/drover-project/drover/test/autoscaler"
	"github.com/drover-project/drover/test/openstack"
	"github.com/drover-project/drover/test/sandbox"
)

const (
	// strange is the address from which the stranger connects. drover's other clients use 127.0.0.1.
	strange = "127.0.0.9"
	// answersWithin is how long drover may take to answer others during a flood.
	answersWithin = 10 * time.Second
)

// errDone is the error of an attempt that has succeeded.
var errDone = errors.New("drover carried it out")

// grpc returns a client with the autoscaler's certificate.
func (w *world) grpc() proto.CloudProviderClient {
	w.Helper()
	conn, err := w.s.Dial()
	w.must(err)
	w.Cleanup(func() { _ = conn.Close() })
	calls := proto.NewCloudProviderClient(conn)
	// The list of groups is that of the last Refresh.
	_, err = calls.Refresh(w.Context(), &proto.RefreshRequest{})
	w.must(err)
	return calls
}

// cloudConfig returns the files with which the autoscaler reaches drover.
func (w *world) cloudConfig() autoscaler.CloudConfig {
	w.Helper()
	c, err := autoscaler.ReadCloudConfig(filepath.Join(w.s.Dir, "autoscaler-cloud.yaml"))
	w.must(err)
	return c
}

// connects opens connections from the stranger's address to one of drover's, and sends a text on each. It returns a function that closes
// them. drover may close them before.
func (w *world) connects(address string, times int, text string) (closeAll func()) {
	w.Helper()
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(strange)}, Timeout: answersWithin}
	var open []net.Conn
	for range times {
		conn, err := from.DialContext(w.Context(), "tcp", address)
		if err != nil {
			continue
		}
		open = append(open, conn)
		_ = conn.SetDeadline(time.Now().Add(answersWithin))
		_, _ = io.WriteString(conn, text)
	}
	return func() {
		for _, conn := range open {
			_ = conn.Close()
		}
	}
}

// page returns the status and the text of one of drover's pages.
func (w *world) page(address, path string) (status int, text string, err error) {
	ctx, cancel := context.WithTimeout(w.Context(), answersWithin)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(raw), err
}

// ready returns an error unless drover says that it is ready.
func (w *world) ready() error {
	status, _, err := w.page(w.s.HealthAddress(), "/readyz")
	if err != nil || status != http.StatusOK {
		return fmt.Errorf("drover is not ready: status %d, %w", status, err)
	}
	return nil
}

// calls makes one call to drover with these credentials, and returns its error.
func (w *world) calls(secure credentials.TransportCredentials) error {
	conn, err := grpc.NewClient("passthrough:///"+w.s.GRPCAddress(), grpc.WithTransportCredentials(secure))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(w.Context(), answersWithin)
	defer cancel()
	_, err = proto.NewCloudProviderClient(conn).NodeGroups(ctx, &proto.NodeGroupsRequest{})
	return err
}

// refusesCredentials returns a function that makes an attempt by calling drover with other certificates than the autoscaler's.
func refusesCredentials(certificates func(*world) []tls.Certificate) func(*world, attempt) error {
	return func(w *world, _ attempt) error {
		config := w.cloudConfig()
		ca, err := os.ReadFile(config.CACert)
		w.must(err)
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(ca)
		host, _, err := net.SplitHostPort(config.Address)
		w.must(err)
		if w.calls(credentials.NewTLS(&tls.Config{Certificates: certificates(w), RootCAs: roots, ServerName: host, MinVersion: tls.VersionTLS12})) == nil {
			return errDone
		}
		return nil
	}
}

func pair(w *world, certificate, key []byte) []tls.Certificate {
	p, err := tls.X509KeyPair(certificate, key)
	w.must(err)
	return []tls.Certificate{p}
}

// floodAttempts returns the attacks in which a stranger exhausts drover's listeners.
func floodAttempts() []attempt {
	fat := "GET /readyz HTTP/1.1\r\nHost: drover\r\nX-Fat: " + strings.Repeat("x", 1<<20)
	flood := func(address func(*world) string, times int, text string) func(*world, attempt) error {
		return func(w *world, _ attempt) error {
			defer w.connects(address(w), times, text)()
			return w.ready()
		}
	}
	health := func(w *world) string { return w.s.HealthAddress() }
	metrics := func(w *world) string { return w.s.MetricsAddress() }
	return []attempt{
		{by: aStranger, to: "fill the memory: 600 connections with 1 MiB of headers to the health port", finding: "F-90", stop: listeners, try: flood(health, 600, fat)},
		{by: aStranger, to: "fill the memory: 600 connections with 1 MiB of headers to the metrics port", finding: "F-90", stop: listeners, try: flood(metrics, 600, fat)},
		{by: aStranger, to: "have drover restarted: 300 silent connections occupy the health port", finding: "F-90", stop: listeners, try: flood(health, 300, "")},
		{by: aStranger, to: "have drover restarted: 300 requests without an end occupy the health port", finding: "F-90", stop: listeners,
			try: flood(health, 300, "GET /readyz HTTP/1.1\r\nHost: drover\r\n")},
		{by: aStranger, to: "keep the autoscaler away: 500 connections begin no TLS handshake", finding: "F-98", stop: listeners,
			try: func(w *world, _ attempt) error {
				defer w.connects(w.s.GRPCAddress(), 500, "")()
				ctx, cancel := context.WithTimeout(w.Context(), answersWithin)
				defer cancel()
				_, err := w.grpc().NodeGroups(ctx, &proto.NodeGroupsRequest{})
				return err
			}},
		{by: aClient, to: "fill the memory: 14 calls of 60 MiB", finding: "F-98", stop: listeners, try: hugeCalls},
	}
}

// hugeCalls makes 14 calls with 60 MiB each at the same time, over 7 connections.
func hugeCalls(w *world, _ attempt) error {
	huge := strings.Repeat("x", 60<<20)
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	var work sync.WaitGroup
	answers := make(chan error, 14)
	for range 7 {
		calls := w.grpc()
		for range 2 {
			work.Go(func() {
				_, err := calls.NodeGroupTargetSize(ctx, &proto.NodeGroupTargetSizeRequest{Id: huge})
				answers <- err
			})
		}
	}
	work.Wait()
	close(answers)
	for err := range answers {
		if err == nil {
			return errDone
		}
	}
	return w.ready()
}

// strangerAttempts returns the attacks of somebody who has no credentials for drover's listeners.
func strangerAttempts() []attempt {
	absent := func(path string, texts ...string) func(*world, attempt) error {
		return func(w *world, _ attempt) error {
			for _, address := range []string{w.s.HealthAddress(), w.s.MetricsAddress()} {
				_, text, err := w.page(address, path)
				if err != nil {
					return err
				}
				for _, secret := range texts {
					if strings.Contains(text, secret) {
						return fmt.Errorf("%s of %s shows %q", path, address, secret)
					}
				}
			}
			return nil
		}
	}
	secrets := []string{openstack.MetaKubePassword, openstack.MetaKubeAppCredentialSecret, classified, "Bearer "}
	return []attempt{
		{by: aStranger, to: "call drover as the autoscaler: without a certificate", finding: "F-98", stop: listeners,
			try: refusesCredentials(func(*world) []tls.Certificate { return nil })},
		{by: aStranger, to: "call drover as the autoscaler: without TLS", finding: "F-98", stop: listeners,
			try: func(w *world, _ attempt) error {
				if w.calls(insecure.NewCredentials()) == nil {
					return errDone
				}
				return nil
			}},
		{by: aStranger, to: "call drover as the autoscaler: with a certificate that he has signed himself", finding: "F-98", stop: listeners,
			try: refusesCredentials(func(w *world) []tls.Certificate {
				certificate, key, err := cert.GenerateSelfSignedCertKey("cluster-autoscaler", nil, nil)
				w.must(err)
				return pair(w, certificate, key)
			})},
		{by: aKubelet, to: "call drover as the autoscaler: with the certificate of its Node", finding: "F-98", stop: listeners,
			try: refusesCredentials(func(w *world) []tls.Certificate {
				config, err := w.s.Cluster.ConfigForUser("system:node:"+w.node, "system:nodes")
				w.must(err)
				return pair(w, config.CertData, config.KeyData)
			})},
		{by: aStranger, to: "see the memory of drover: profiles at /debug/pprof/heap", finding: "F-90", stop: listeners, try: absent("/debug/pprof/heap?debug=1", "heap profile")},
		{by: aStranger, to: "read a file of drover: the path of a page leads there", finding: "F-90", stop: listeners, try: absent("/%2e%2e/%2e%2e/etc/passwd", "root:")},
		{by: aStranger, to: "see a secret in the metrics", finding: "F-10", stop: listeners, try: absent("/metrics", secrets...)},
		{by: aStranger, to: "see a secret in the plans of rollouts", finding: "F-10", stop: listeners, try: absent("/plans", secrets...)},
	}
}

// clientAttempts returns the attacks of a client with the autoscaler's certificate, who may change sizes between the bounds and nothing else.
func clientAttempts() []attempt {
	kept := func(w *world) string { return "MachineDeployment/" + metav1.NamespaceSystem + "/" + w.herd.group }
	grow := func(id func(*world) string, delta int32) func(*world, attempt) error {
		return func(w *world, _ attempt) error {
			if _, err := w.grpc().NodeGroupIncreaseSize(w.Context(), &proto.NodeGroupIncreaseSizeRequest{Id: id(w), Delta: delta}); err == nil {
				return errDone
			}
			return nil
		}
	}
	remove := func(nodes func(*world) []*proto.ExternalGrpcNode) func(*world, attempt) error {
		return func(w *world, _ attempt) error {
			if _, err := w.grpc().NodeGroupDeleteNodes(w.Context(), &proto.NodeGroupDeleteNodesRequest{Id: kept(w), Nodes: nodes(w)}); err == nil {
				return errDone
			}
			return nil
		}
	}
	node := func(name, server string) *proto.ExternalGrpcNode {
		return &proto.ExternalGrpcNode{Name: name, ProviderID: "openstack:///" + server}
	}
	return []attempt{
		{by: aClient, to: "make a group grow above its maximum", finding: "F-98", stop: listeners, try: grow(kept, 1000)},
		{by: aClient, to: "overflow the size of a group", finding: "F-98", stop: listeners, try: grow(kept, math.MaxInt32)},
		{by: aClient, to: "shrink a group by a negative increase", finding: "F-98", stop: listeners, try: grow(kept, -1)},
		{by: aClient, to: "change another object: the ID of a group is a path", finding: "F-98", stop: listeners,
			try: grow(func(*world) string { return "MachineDeployment/../../../secrets/" + keys }, 1)},
		{by: aClient, to: "have the control plane's Node removed: he names it as one of a group", finding: "F-98", stop: listeners,
			try: remove(func(w *world) []*proto.ExternalGrpcNode {
				return []*proto.ExternalGrpcNode{node(controlPlane, w.others.controlPlane)}
			})},
		{by: aClient, to: "have a Node of another group removed: he names it as one of this group", finding: "F-98", stop: listeners,
			try: remove(func(w *world) []*proto.ExternalGrpcNode {
				return []*proto.ExternalGrpcNode{node(w.node, serverOf(w.own))}
			})},
		{by: aClient, to: "have all Nodes of a group removed, below its minimum", finding: "F-98", stop: listeners,
			try: remove(func(w *world) []*proto.ExternalGrpcNode {
				var all []*proto.ExternalGrpcNode
				for _, m := range w.membersOf(metav1.NamespaceSystem) {
					all = append(all, node(m.ServerName(), serverOf(m)))
				}
				return all
			})},
		{by: aClient, to: "end drover: a Node to remove is missing in the call", finding: "F-98", stop: listeners,
			try: func(w *world, _ attempt) error {
				_, _ = w.grpc().NodeGroupDeleteNodes(w.Context(), &proto.NodeGroupDeleteNodesRequest{Id: kept(w), Nodes: []*proto.ExternalGrpcNode{nil, {}}})
				return w.ready()
			}},
		{by: aClient, to: "have running nodes removed: he cancels replicas that have all come", finding: "F-98", stop: listeners,
			try: func(w *world, _ attempt) error {
				_, _ = w.grpc().NodeGroupDecreaseTargetSize(w.Context(), &proto.NodeGroupDecreaseTargetSizeRequest{Id: kept(w), Delta: -1})
				size, err := w.grpc().NodeGroupTargetSize(w.Context(), &proto.NodeGroupTargetSizeRequest{Id: kept(w)})
				if err == nil && size.GetTargetSize() != 2 {
					return fmt.Errorf("the size is %d", size.GetTargetSize())
				}
				return err
			}},
		{by: aClient, to: "read Secrets: he shows his certificate to the API server", finding: "F-98", stop: rights,
			try: func(w *world, _ attempt) error {
				files, config := w.cloudConfig(), rest.AnonymousClientConfig(w.s.Cluster.Config)
				config.CertFile, config.KeyFile = files.Cert, files.Key
				c, err := client.New(config, client.Options{Scheme: sandbox.Scheme(), Mapper: w.s.Client.RESTMapper()})
				w.must(err)
				return c.List(w.Context(), &corev1.SecretList{}, client.InNamespace(metav1.NamespaceSystem))
			}},
	}
}
