package chaos

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/test/chaos/world"
	sim "github.com/drover-project/drover/test/openstack"
)

// lateImageName is an image that does not exist at first.
const lateImageName = "uploaded-later"

// LateImage is a set whose image is uploaded 20 s after drover first missed it. It is played without a crash.
func LateImage() Scenario {
	return Scenario{Name: "the image comes 20 s after it was missed", play: (*harness).lateImage}
}

// ServersFail is a set of two whose servers all go to ERROR, for a reason of no known kind. It is played without a crash.
func ServersFail() Scenario {
	return Scenario{Name: "every server goes to ERROR", each: failAll, play: (*harness).serversFail}
}

// lateImage checks that the image is found a minute after it was missed at the latest, with few look-ups.
func (h *harness) lateImage() error {
	m, err := h.NewMachine()
	if err != nil {
		return err
	}
	value := m.Spec.ProviderSpec.Value
	value.Raw = []byte(strings.ReplaceAll(string(value.Raw), sim.MetaKubeImage, lateImageName))
	set, err := h.setOf(2, m)
	if err != nil {
		return err
	}
	if err := h.until("the image is missed", func() (bool, error) { return h.anyFailed(fault.CodeImageNotFound) }); err != nil {
		return err
	}
	missed := time.Now()
	time.Sleep(20 * time.Second)
	h.Cloud.AddImage(sim.Image{Name: lateImageName})
	if err := h.until("a server is made", func() (bool, error) { return len(h.Ours().Servers) > 0, nil }); err != nil {
		return err
	}
	if took := time.Since(missed); took > time.Minute {
		return fmt.Errorf("the first server came %v after the image was missed", took)
	}
	// One of the lists is that of all names, for the proposals of the error.
	if n := h.Cloud.CallCount("GET /images"); n > 4 {
		return fmt.Errorf("the image was looked up %d times", n)
	}
	if err := h.running(2); err != nil {
		return err
	}
	if err := h.Admin.Delete(h.Context, set); err != nil {
		return fmt.Errorf("deleting the set: %w", err)
	}
	return h.ended(2, 2)
}

// anyFailed reports whether a Machine shows that code.
func (h *harness) anyFailed(code fault.Code) (bool, error) {
	machines, err := h.Machines()
	for i := range machines {
		if ptr.Deref(machines[i].Status.ErrorReason, "") == string(code) {
			return true, err
		}
	}
	return false, err
}

// failAll puts each server of ours that is building into ERROR.
func failAll(h *harness) {
	for _, id := range h.Ours().Servers {
		if s, _ := h.Cloud.Server(id); s.Status == "BUILD" {
			h.Cloud.FailServer(id, "Unknown error 5")
		}
	}
}

// serversFail checks that the group backs off from the second failure on: in ten minutes there are few servers.
func (h *harness) serversFail() error {
	m, err := h.NewMachine()
	if err != nil {
		return err
	}
	before := h.Cloud.CallCount("POST /servers")
	set, err := h.setOf(2, m)
	if err != nil {
		return err
	}
	if err := h.until("the group backs off", func() (bool, error) { return h.backsOff(set) }); err != nil {
		return err
	}
	if n := h.Cloud.CallCount("POST /servers") - before; n > 2 {
		return fmt.Errorf("%d servers were made before the group backed off", n)
	}
	start := time.Now()
	if err := h.until("ten minutes have passed", func() (bool, error) { return time.Since(start) > 10*time.Minute, nil }); err != nil {
		return err
	}
	// Two at once, then one after 30 s, 1, 2 and 4 min each.
	made := h.Cloud.CallCount("POST /servers") - before
	err = h.Admin.Delete(h.Context, set)
	if made > 6 {
		err = errors.Join(err, fmt.Errorf("%d servers were made in 10 minutes, for two that were wanted", made))
	}
	return errors.Join(err, h.ended(made, 2))
}

// backsOff reports whether the set's status holds the failures, and every Machine shows them.
func (h *harness) backsOff(set *v1alpha1.MachineSet) (bool, error) {
	if err := h.Admin.Get(h.Context, client.ObjectKeyFromObject(set), set); err != nil {
		return false, err
	}
	machines, err := h.Machines()
	for i := range machines {
		if ptr.Deref(machines[i].Status.ErrorReason, "") == "" {
			return false, err
		}
	}
	return len(set.Status.Backoffs) == 1 && set.Status.Backoffs[0].Step == 2 && len(machines) == 2, err
}

// NobodyJoins is a bare set of two whose servers boot and never become nodes. It is played without a crash.
func NobodyJoins() Scenario {
	return Scenario{Name: "no server becomes a node", world: world.Options{SilentServers: true}, play: (*harness).nobodyJoins}
}

// nobodyJoins checks that Machines past their join deadline are replaced, and that one at a time is tried then.
func (h *harness) nobodyJoins() error {
	m, err := h.NewMachine()
	if err != nil {
		return err
	}
	before := h.Cloud.CallCount("POST /servers")
	set, err := h.setOf(2, m)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := h.until("fifty minutes have passed", func() (bool, error) { return time.Since(start) > 50*time.Minute, nil }); err != nil {
		return err
	}
	// Two at once; then, each time that a join deadline of 10 min has passed, one.
	made := h.Cloud.CallCount("POST /servers") - before
	if made < 5 || made > 6 {
		return fmt.Errorf("%d servers were made in 50 minutes, want 5 or 6", made)
	}
	if err := h.Admin.Delete(h.Context, set); err != nil {
		return fmt.Errorf("deleting the set: %w", err)
	}
	return h.ended(made, 2)
}
