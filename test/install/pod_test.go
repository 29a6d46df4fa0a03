package install

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/test/kube"
)

const (
	patience  = 90 * time.Second
	pollEvery = 100 * time.Millisecond
)

// pod runs the containers of a Deployment's pod as processes of this machine. Its volumes are folders, and its ports are
// free ports of the loopback address.
type pod struct {
	*testing.T
	on     *kube.Cluster
	client kubernetes.Interface
	spec   corev1.PodSpec
	dir    string
	// ports maps the ports of the pod to addresses on loopback.
	ports map[int32]string
}

// newPod prepares the pod of the cluster's Deployment. It waits for the Secrets and ConfigMaps of its volumes.
func newPod(t *testing.T, on *kube.Cluster, namespace, deployment string) *pod {
	t.Helper()
	c, err := kubernetes.NewForConfig(on.Config)
	if err != nil {
		t.Fatal(err)
	}
	var d *appsv1.Deployment
	if d, err = c.AppsV1().Deployments(namespace).Get(t.Context(), deployment, metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	p := &pod{T: t, on: on, client: c, spec: d.Spec.Template.Spec, dir: t.TempDir(), ports: map[int32]string{}}
	for _, container := range p.spec.Containers {
		for _, port := range container.Ports {
			p.ports[port.ContainerPort] = p.free()
		}
	}
	for _, v := range p.spec.Volumes {
		p.mount(namespace, v)
	}
	p.account(namespace)
	return p
}

// free returns an address on loopback with a port that no process listens on.
func (p *pod) free() string {
	p.Helper()
	address, err := kube.FreeAddress()
	if err != nil {
		p.Fatal(err)
	}
	return address
}

func (p *pod) folder(volume string) string { return filepath.Join(p.dir, "volumes", volume) }

// mount creates the folder of a volume, with the file modes that a kubelet sets.
func (p *pod) mount(namespace string, v corev1.Volume) {
	p.Helper()
	if err := os.MkdirAll(p.folder(v.Name), 0o755); err != nil {
		p.Fatal(err)
	}
	files := map[string][]byte{}
	switch {
	case v.EmptyDir != nil:
		if err := os.Chmod(p.folder(v.Name), 0o777|os.ModeSetgid); err != nil {
			p.Fatal(err)
		}
	case v.Secret != nil:
		p.until("the Secret "+v.Secret.SecretName, func(ctx context.Context) error {
			s, err := p.client.CoreV1().Secrets(namespace).Get(ctx, v.Secret.SecretName, metav1.GetOptions{})
			files = s.Data
			return err
		})
	case v.ConfigMap != nil:
		p.until("the ConfigMap "+v.ConfigMap.Name, func(ctx context.Context) error {
			c, err := p.client.CoreV1().ConfigMaps(namespace).Get(ctx, v.ConfigMap.Name, metav1.GetOptions{})
			for key, text := range c.Data {
				files[key] = []byte(p.local(p.mounts(), text))
			}
			return err
		})
	default:
		p.Fatalf("the volume %s is of a kind that this test does not know", v.Name)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(p.folder(v.Name), name), content, 0o644); err != nil {
			p.Fatal(err)
		}
	}
}

// until calls get until the object exists. It fails the test on other errors and after a timeout.
func (p *pod) until(what string, get func(context.Context) error) {
	p.Helper()
	err := wait.PollUntilContextTimeout(p.Context(), pollEvery, patience, true, func(ctx context.Context) (bool, error) {
		err := get(ctx)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		p.Fatalf("waiting for %s: %v", what, err)
	}
}

func (p *pod) kubeconfig() string { return filepath.Join(p.dir, "kubeconfig") }

// account writes a kubeconfig with a token of the pod's ServiceAccount.
func (p *pod) account(namespace string) {
	p.Helper()
	seconds := int64(time.Hour.Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	token, err := p.client.CoreV1().ServiceAccounts(namespace).CreateToken(p.Context(), p.spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		p.Fatal(err)
	}
	if err := kube.WriteKubeconfig(p.kubeconfig(), p.on.ConfigForToken(token.Status.Token)); err != nil {
		p.Fatal(err)
	}
}

func (p *pod) container(name string) corev1.Container {
	p.Helper()
	for _, c := range p.spec.Containers {
		if c.Name == name {
			return c
		}
	}
	p.Fatalf("the pod has no container %s", name)
	return corev1.Container{}
}

// mounts returns the volume mounts of all containers of the pod.
func (p *pod) mounts() (all []corev1.VolumeMount) {
	for _, c := range p.spec.Containers {
		all = append(all, c.VolumeMounts...)
	}
	return all
}

// local replaces mount paths in a text with the paths of the volumes' folders on this machine.
func (p *pod) local(mounts []corev1.VolumeMount, text string) string {
	for _, m := range mounts {
		text = strings.ReplaceAll(text, m.MountPath+"/", p.folder(m.Name)+"/")
	}
	return text
}

// here replaces paths and ports in an argument of a container with those that are used on this machine.
func (p *pod) here(c corev1.Container, text string) string {
	text = p.local(c.VolumeMounts, text)
	name, value, _ := strings.Cut(text, "=")
	for port, address := range p.ports {
		if value == fmt.Sprintf(":%d", port) {
			return name + "=" + address
		}
	}
	return text
}

// start runs a container until the test ends or the returned function is called.
func (p *pod) start(name, binary string, more ...string) (stop func()) {
	p.Helper()
	c := p.container(name)
	var args []string
	for _, arg := range append(append([]string{}, c.Command...), c.Args...) {
		if strings.HasPrefix(arg, "--") {
			args = append(args, p.here(c, arg))
		}
	}
	log := filepath.Join(p.dir, name+".log")
	file, err := os.Create(log)
	if err != nil {
		p.Fatal(err)
	}
	cmd := exec.Command(binary, append(append(args, "--kubeconfig="+p.kubeconfig()), more...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = p.dir, file, file, []string{"HOME=" + p.dir, "PATH=" + os.Getenv("PATH")}
	// The kernel kills the container's process when this process is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		p.Fatal(err)
	}
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		_ = file.Close()
		if p.Failed() {
			raw, _ := os.ReadFile(log)
			p.Logf("the last lines of %s:\n%s", name, raw[max(0, len(raw)-8000):])
		}
	}
	p.Cleanup(stop)
	return stop
}

// ready waits until the container's own readiness probe succeeds.
func (p *pod) ready(name string) {
	p.Helper()
	c := p.container(name)
	get := c.ReadinessProbe.HTTPGet
	var url string
	for _, port := range c.Ports {
		if port.Name == get.Port.StrVal {
			url = "http://" + p.ports[port.ContainerPort] + get.Path
		}
	}
	p.answers(url)
}

// answers waits until a URL responds with 200.
func (p *pod) answers(url string) {
	p.Helper()
	err := wait.PollUntilContextTimeout(p.Context(), pollEvery, patience, true, func(ctx context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil
		}
		return response.StatusCode == http.StatusOK, response.Body.Close()
	})
	if err != nil {
		p.Fatalf("waiting for %s: %v", url, err)
	}
}
