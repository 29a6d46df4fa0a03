//go:build cluster

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/guard"
	"github.com/drover-project/drover/test/openstack"
)

const (
	// mostMemory is the number of bytes of memory that drover may use at most while it is attacked.
	mostMemory = 200 << 20
	// mostSignIns is how often drover may sign in during the test to a cloud that refuses every sign-in.
	mostSignIns = 40
	// scaleWithin is how long another group may take to get a node while drover is attacked.
	scaleWithin = time.Minute
)

func TestAttacksUnderTheAdmissionPolicies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.suffers()
	t.Run("drover reports the admission policies as in force, and as not in force once a policy's binding is deleted (F-5)", func(t *testing.T) { saysWhenUnguarded(t, w.herd.in(t)) })
}

func TestAttacksFailAlsoWithoutTheAdmissionPolicies(t *testing.T) {
	t.Parallel()
	newWorld(t, false).suffers()
}

// suffers makes all attempts, waits until drover has processed the resulting objects, and checks that no attempt succeeded.
func (w *world) suffers() {
	began := time.Now()
	peak := w.watchMemory()
	started, err := w.metric(w.Context(), "process_start_time_seconds")
	w.must(err)
	for _, a := range attempts() {
		w.Run(fmt.Sprintf("the %s does not manage to %s (%s)", a.by, a.to, a.finding), func(t *testing.T) {
			w := w.in(t)
			if wrong := a.wrong(a.try(w, a), w.guarded); wrong != "" {
				t.Error(wrong)
			}
		})
	}
	w.Logf("%s: %d attempts were made", time.Since(began), len(attempts()))
	w.Run("a group of another user gets a node during the attacks (F-14)", func(t *testing.T) { w.in(t).scales() })
	w.Run("drover processes every Machine of the attackers (F-4)", func(t *testing.T) { w.in(t).seen() })
	w.Logf("%s: all Machines were seen", time.Since(began))
	for _, a := range attempts() {
		if a.after != nil {
			w.Run(fmt.Sprintf("in the end the %s has not managed to %s (%s)", a.by, a.to, a.finding), func(t *testing.T) {
				if err := a.after(w.in(t), a); err != nil {
					t.Error(err)
				}
			})
		}
	}
	w.judge("after all attacks")
	w.Run("the attackers' Machines can be deleted, and are gone afterwards (F-3)", func(t *testing.T) { w.in(t).clears() })
	w.Logf("%s: all Machines are gone", time.Since(began))
	delete(w.others.was, audited)
	w.judge("after the deletion of the attackers' Machines")
	w.Run("a group of another user can be scaled down after the attacks (F-15)", func(t *testing.T) { w.in(t).shrinks() })
	w.Run("no credentials of other users reached the attackers' cloud, and no request reached an internal service (F-9, F-11)", func(t *testing.T) { w.in(t).keptSecrets() })
	w.Run("no object, Event or log line contains the value of a Secret (F-10)", func(t *testing.T) { w.in(t).hidSecrets() })
	w.Run("drover was not restarted, and used less than 200 MB of memory (F-8)", func(t *testing.T) {
		now, err := w.metric(t.Context(), "process_start_time_seconds")
		if most := peak(); now != started || err != nil || most > mostMemory {
			t.Errorf("drover started at %s, and then at %s (%v); it held %d MB", started, now, err, most>>20)
		}
	})
}

// judge checks that the state of all objects and resources of other users is the same as before the attempts.
func (w *world) judge(when string) {
	w.Run(when+", the attackers have no certificate, and the objects and resources of other users are unchanged (F-1, F-2, F-3, F-4, F-6)", func(t *testing.T) {
		w := w.in(t)
		w.decided()
		if diff := w.others.changed(t.Context(), w); diff != "" {
			t.Errorf("it is not as it was (-was +now):\n%s", diff)
		}
	})
}

// slowMachines returns a function that reports whether a Machine belongs to a slow attempt, for which the test does not wait.
func slowMachines() func(v1alpha1.Machine) bool {
	var keys []string
	for _, a := range attempts() {
		if a.slow {
			keys = append(keys, a.key())
		}
	}
	return func(m v1alpha1.Machine) bool {
		return slices.ContainsFunc(keys, func(key string) bool { return m.Name == key || strings.HasPrefix(m.Name, key+"-") })
	}
}

// scales checks that another group gets a node in time, without waiting for the attackers' clouds.
func (w *world) scales() {
	w.Helper()
	began := time.Now()
	w.kubectl("-n", metav1.NamespaceSystem, "scale", "machinedeployment", w.herd.group, "--replicas=3")
	eventually(w.T, func(ctx context.Context) (string, error) {
		var list v1alpha1.MachineList
		if err := w.s.Client.List(ctx, &list, client.InNamespace(metav1.NamespaceSystem)); err != nil {
			return "", err
		}
		if len(list.Items) != 3 {
			return fmt.Sprintf("three Machines of the other group; there are %d", len(list.Items)), nil
		}
		for i := range list.Items {
			if missing, err := w.isUsable(ctx, &list.Items[i]); missing != "" || err != nil {
				return missing, err
			}
		}
		return "", nil
	})
	if took := time.Since(began); took > scaleWithin {
		w.Errorf("it took %s", took)
	}
}

// shrinks checks that one Machine of another group is deleted in time, although the attackers' cloud has reported many missing servers.
func (w *world) shrinks() {
	w.Helper()
	w.kubectl("-n", metav1.NamespaceSystem, "scale", "machinedeployment", w.herd.group, "--replicas=2")
	eventually(w.T, func(ctx context.Context) (string, error) {
		var list v1alpha1.MachineList
		err := w.s.Client.List(ctx, &list, client.InNamespace(metav1.NamespaceSystem))
		if len(list.Items) != 2 {
			return fmt.Sprintf("two Machines of the other group; there are %d", len(list.Items)), err
		}
		return "", err
	})
}

// seen waits until every Machine of the attackers has conditions, except those on which drover does not work, and checks that these contain the texts that the attempts name.
func (w *world) seen() {
	w.Helper()
	says := map[string]string{}
	for _, a := range attempts() {
		says[a.key()] = a.shows
	}
	slow := slowMachines()
	eventually(w.T, func(ctx context.Context) (string, error) {
		var list v1alpha1.MachineList
		if err := w.s.Client.List(ctx, &list, client.InNamespace(tenant)); err != nil {
			return "", err
		}
		for _, m := range slices.DeleteFunc(list.Items, slow) {
			waits := m.DeletionTimestamp != nil || v1alpha1.Paused(m.Annotations) || m.Annotations[v1alpha1.AnnotationInitializers] != ""
			status, err := json.Marshal(m.Status)
			if err != nil {
				return "", err
			}
			if !waits && (len(m.Status.Conditions) == 0 || !strings.Contains(string(status), says[m.Name])) {
				return fmt.Sprintf("Machine %s to show %q: %s", m.Name, says[m.Name], status), nil
			}
		}
		return "", nil
	})
}

// decided waits until drover has handled all certificate requests: it creates one more and waits for drover's decision
// about it. It fails the test for each approved request of the attackers.
func (w *world) decided() {
	w.Helper()
	name := fmt.Sprintf("renewal-%d", time.Now().UnixNano())
	w.must(w.request(w.as("system:node:"+w.victim.ServerName(), "system:nodes"), name, identity(w.victim.ServerName())))
	eventually(w.T, func(ctx context.Context) (string, error) {
		if !w.approved(ctx, name) {
			return "the renewal of the victim's certificate to be approved", nil
		}
		return "", nil
	})
	for name := range w.forged {
		if w.approved(w.Context(), name) {
			w.Errorf("the certificate request %s was approved", name)
		}
	}
}

func (w *world) approved(ctx context.Context, name string) bool {
	var r certificatesv1.CertificateSigningRequest
	w.must(w.s.Client.Get(ctx, client.ObjectKey{Name: name}, &r))
	return slices.ContainsFunc(r.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateApproved
	})
}

// clears deletes everything of the author's, with the annotation for forced deletion, and waits until all his Machines
// are gone except those of slow attempts.
func (w *world) clears() {
	w.Helper()
	for _, list := range []client.Object{&v1alpha1.MachineDeployment{}, &v1alpha1.MachineSet{}} {
		w.must(w.author.DeleteAllOf(w.Context(), list, client.InNamespace(tenant)))
	}
	var list v1alpha1.MachineList
	slow := slowMachines()
	eventually(w.T, func(ctx context.Context) (string, error) {
		if err := w.author.List(ctx, &list, client.InNamespace(tenant)); err != nil {
			return "", err
		}
		for _, m := range list.Items {
			if m.Annotations[v1alpha1.AnnotationForceDelete] == "" {
				patch := merge(`{"metadata":{"annotations":{"` + v1alpha1.AnnotationForceDelete + `":"true","` + v1alpha1.AnnotationPaused + `":null,"` + v1alpha1.AnnotationPausedCAPI + `":null}}}`)
				if err := client.IgnoreNotFound(w.author.Patch(ctx, m.DeepCopy(), patch)); err != nil {
					return "", err
				}
			}
			if m.DeletionTimestamp == nil {
				if err := client.IgnoreNotFound(w.author.Delete(ctx, m.DeepCopy())); err != nil {
					return "", err
				}
			}
		}
		list.Items = slices.DeleteFunc(list.Items, slow)
		if n := len(list.Items); n > 0 {
			status, err := json.Marshal(list.Items[0].Status)
			return fmt.Sprintf("all Machines to be gone; there are %d, such as %s: %s", n, list.Items[0].Name, status), err
		}
		return "", nil
	})
}

// keptSecrets fails the test for each request that drover sent to a forbidden address, and for each request that
// contains a secret other than the attackers' own.
func (w *world) keptSecrets() {
	w.Helper()
	e := w.enemy
	if all := e.inside.requests(); len(all) > 0 {
		w.Errorf("requests went inside: %q", all)
	}
	if all := e.gate.requests(); len(all) > 0 {
		w.Errorf("requests went to an endpoint that nobody has allowed: %q", all)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := e.signIns["storm"]; n == 0 || n > mostSignIns {
		w.Errorf("drover signed in %d times at a cloud that refuses it; want 1 to %d", n, mostSignIns)
	}
	for _, request := range e.requests {
		for _, secret := range []string{openstack.MetaKubePassword, openstack.MetaKubeAppCredentialSecret, classified, "Authorization: "} {
			if strings.Contains(request, secret) {
				w.Errorf("a request holds %q:\n%s", secret, request)
			}
		}
		for line := range strings.Lines(request) {
			if token, ok := strings.CutPrefix(line, "X-Auth-Token: "); ok && !e.tokens[strings.TrimSpace(token)] {
				w.Errorf("a request has a token that the attackers' cloud has not issued: %s", token)
			}
		}
	}
	w.Logf("the attackers' cloud received %d requests", len(e.requests))
}

// hidSecrets fails the test for each object, Event and log line that shows the value of a Secret.
func (w *world) hidSecrets() {
	w.Helper()
	log, err := os.ReadFile(w.s.LogFile("drover"))
	w.must(err)
	texts := map[string]string{"the log": string(log)}
	for name, list := range map[string]client.ObjectList{
		"Machines": &v1alpha1.MachineList{}, "MachineSets": &v1alpha1.MachineSetList{}, "MachineDeployments": &v1alpha1.MachineDeploymentList{},
		"Nodes": &corev1.NodeList{}, "Events": &eventsv1.EventList{},
	} {
		w.must(w.s.Client.List(w.Context(), list))
		raw, err := json.Marshal(list)
		w.must(err)
		texts[name] = string(raw)
	}
	for name, text := range texts {
		for _, secret := range []string{openstack.MetaKubePassword, openstack.MetaKubeAppCredentialSecret, classified, insideText} {
			if at := strings.Index(text, secret); at >= 0 {
				w.Errorf("%s: %s shows %q", name, text[max(0, at-200):min(len(text), at+100)], secret)
			}
		}
	}
}

// watchMemory measures drover's memory until the test ends. The returned function returns the largest measured number of bytes.
func (w *world) watchMemory() (peak func() int) {
	var mu sync.Mutex
	most := 0
	ctx, cancel := context.WithCancel(w.Context())
	var work sync.WaitGroup
	work.Go(func() {
		ticker := time.NewTicker(5 * pollEvery)
		defer ticker.Stop()
		for ctx.Err() == nil {
			text, err := w.metric(ctx, "process_resident_memory_bytes")
			bytes, parseErr := strconv.ParseFloat(text, 64)
			if err == nil && parseErr == nil {
				mu.Lock()
				most = max(most, int(bytes))
				mu.Unlock()
			}
			select {
			case <-ctx.Done():
			case <-ticker.C:
			}
		}
	})
	w.Cleanup(func() {
		cancel()
		work.Wait()
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		w.Logf("drover held %d MB at most", most>>20)
		return most
	}
}

// saysWhenUnguarded deletes a binding and waits until drover reports it.
func saysWhenUnguarded(t *testing.T, h herd) {
	inForce := func(want string) {
		t.Helper()
		eventually(t, func(ctx context.Context) (string, error) {
			value, err := h.metric(ctx, "drover_guard_policies_in_force")
			if value != want {
				return fmt.Sprintf("drover_guard_policies_in_force %s: it is %q", want, value), err
			}
			return "", nil
		})
	}
	inForce("1")
	h.kubectl("delete", "validatingadmissionpolicybinding/drover-guard-machines")
	inForce("0")
	eventually(t, func(ctx context.Context) (string, error) {
		var list eventsv1.EventList
		if err := h.s.Client.List(ctx, &list); err != nil {
			return "", err
		}
		told := slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Type == corev1.EventTypeWarning && e.Reason == guard.ReasonNotInForce && strings.Contains(e.Note, "ValidatingAdmissionPolicyBinding drover-guard-machines is missing")
		})
		if !told {
			return "an Event that names the missing binding", nil
		}
		return "", nil
	})
}
