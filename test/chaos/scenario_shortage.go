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

// lateImageName is the name of an image that does not exist at first.
const lateImageName = "uploaded-later"

// LateImage returns a scenario in which an image is uploaded 20 s after drover first looked it up. It is run without a fault.
func LateImage() Scenario {
	return Scenario{Name: "the image is uploaded 20 s after the first look-up", script: (*harness).lateImage}
}

// ServersFail returns a scenario in which all servers of a set of two go to ERROR with an unknown cause. It is run without a
// fault.
func ServersFail() Scenario {
	return Scenario{Name: "every server goes to ERROR", everySecond: failAll, script: (*harness).serversFail}
}

// lateImage checks that drover finds the image at most a minute after the first look-up, with few look-ups.
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
	if err := h.until("drover reports that the image is missing", func() (bool, error) { return h.anyFailed(fault.CodeImageNotFound) }); err != nil {
		return err
	}
	missed := time.Now()
	time.Sleep(20 * time.Second)
	h.Cloud.AddImage(sim.Image{Name: lateImageName})
	if err := h.until("a server is created", func() (bool, error) { return len(h.Ours().Servers) > 0, nil }); err != nil {
		return err
	}
	if took := time.Since(missed); took > time.Minute {
		return fmt.Errorf("the first server was created %v after the image was reported missing", took)
	}
	// One of the calls lists all images, for the suggestions in the error message.
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

// anyFailed reports whether the status of any Machine has that error code.
func (h *harness) anyFailed(code fault.Code) (bool, error) {
	machines, err := h.Machines()
	for i := range machines {
		if ptr.Deref(machines[i].Status.ErrorReason, "") == string(code) {
			return true, err
		}
	}
	return false, err
}

// failAll puts each of drover's servers into ERROR while it is building.
func failAll(h *harness) {
	for _, id := range h.Ours().Servers {
		if s, _ := h.Cloud.Server(id); s.Status == "BUILD" {
			h.Cloud.FailServer(id, "Unknown error 5")
		}
	}
}

// serversFail checks that the group backs off from the second failure on, so that few servers are created in ten minutes.
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
		return fmt.Errorf("%d servers were created before the group backed off", n)
	}
	start := time.Now()
	if err := h.until("ten minutes have passed", func() (bool, error) { return time.Since(start) > 10*time.Minute, nil }); err != nil {
		return err
	}
	// Two servers are created together, then one after each back-off of 30 s, 1, 2 and 4 min.
	made := h.Cloud.CallCount("POST /servers") - before
	err = h.Admin.Delete(h.Context, set)
	if made > 6 {
		err = errors.Join(err, fmt.Errorf("%d servers were created in 10 minutes for a set of two", made))
	}
	return errors.Join(err, h.ended(made, 2))
}

// backsOff reports whether the set's status holds the failures, and each Machine shows the back-off.
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

// NobodyJoins returns a scenario in which the servers of a set of two without a deployment boot and never become Nodes. It is run
// without a fault.
func NobodyJoins() Scenario {
	return Scenario{Name: "no server becomes a Node", world: world.Options{SilentServers: true}, script: (*harness).nobodyJoins}
}

// nobodyJoins checks that Machines are replaced after their join deadline, one at a time.
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
	// Two servers are created together, then one each time that a join deadline of 10 min has passed.
	made := h.Cloud.CallCount("POST /servers") - before
	if made < 5 || made > 6 {
		return fmt.Errorf("%d servers were created in 50 minutes, want 5 or 6", made)
	}
	if err := h.Admin.Delete(h.Context, set); err != nil {
		return fmt.Errorf("deleting the set: %w", err)
	}
	return h.ended(made, 2)
}
