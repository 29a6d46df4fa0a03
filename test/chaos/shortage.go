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
	sim "github.com/drover-project/drover/test/openstack"
)

// lateImageName is an image that does not exist at first.
const lateImageName = "uploaded-later"

// LateImage is a set whose image is uploaded 20 s after drover first missed it. It is played without a crash.
func LateImage() Story {
	return Story{Name: "the image comes 20 s after it was missed", play: (*play).lateImage}
}

// ServersFail is a set of two whose servers all go to ERROR, for a reason of no known kind. It is played without a crash.
func ServersFail() Story {
	return Story{Name: "every server goes to ERROR", each: failAll, play: (*play).serversFail}
}

// lateImage checks that the image is found a minute after it was missed at the latest, with few look-ups.
func (p *play) lateImage() error {
	m, err := p.newMachine()
	if err != nil {
		return err
	}
	value := m.Spec.ProviderSpec.Value
	value.Raw = []byte(strings.ReplaceAll(string(value.Raw), sim.MetaKubeImage, lateImageName))
	set, err := p.setOfTwo(m)
	if err != nil {
		return err
	}
	if err := p.until("the image is missed", func() (bool, error) { return p.anyFailed(fault.CodeImageNotFound) }); err != nil {
		return err
	}
	missed := time.Now()
	time.Sleep(20 * time.Second)
	p.Cloud.AddImage(sim.Image{Name: lateImageName})
	if err := p.until("a server is made", func() (bool, error) { return len(p.ours().Servers) > 0, nil }); err != nil {
		return err
	}
	if took := time.Since(missed); took > time.Minute {
		return fmt.Errorf("the first server came %v after the image was missed", took)
	}
	// One of the lists is that of all names, for the proposals of the error.
	if n := p.Cloud.CallCount("GET /images"); n > 4 {
		return fmt.Errorf("the image was looked up %d times", n)
	}
	if err := p.running(2); err != nil {
		return err
	}
	if err := p.admin.Delete(p.ctx, set); err != nil {
		return fmt.Errorf("deleting the set: %w", err)
	}
	return p.ended(2, 2)
}

// anyFailed reports whether a Machine shows that code.
func (p *play) anyFailed(code fault.Code) (bool, error) {
	machines, err := p.machines()
	for i := range machines {
		if ptr.Deref(machines[i].Status.ErrorReason, "") == string(code) {
			return true, err
		}
	}
	return false, err
}

// failAll puts each server of ours that is building into ERROR.
func failAll(p *play) {
	for _, id := range p.ours().Servers {
		if s, _ := p.Cloud.Server(id); s.Status == "BUILD" {
			p.Cloud.FailServer(id, "Unknown error 5")
		}
	}
}

// serversFail checks that the group backs off from the second failure on: in ten minutes there are few servers.
func (p *play) serversFail() error {
	m, err := p.newMachine()
	if err != nil {
		return err
	}
	before := p.Cloud.CallCount("POST /servers")
	set, err := p.setOfTwo(m)
	if err != nil {
		return err
	}
	if err := p.until("the group backs off", func() (bool, error) { return p.backsOff(set) }); err != nil {
		return err
	}
	if n := p.Cloud.CallCount("POST /servers") - before; n > 2 {
		return fmt.Errorf("%d servers were made before the group backed off", n)
	}
	start := time.Now()
	if err := p.until("ten minutes have passed", func() (bool, error) { return time.Since(start) > 10*time.Minute, nil }); err != nil {
		return err
	}
	// Two at once, then one after 30 s, 1, 2 and 4 min each.
	made := p.Cloud.CallCount("POST /servers") - before
	err = p.admin.Delete(p.ctx, set)
	if made > 6 {
		err = errors.Join(err, fmt.Errorf("%d servers were made in 10 minutes, for two that were wanted", made))
	}
	return errors.Join(err, p.ended(made, 2))
}

// backsOff reports whether the set's status holds the failures, and every Machine shows them.
func (p *play) backsOff(set *v1alpha1.MachineSet) (bool, error) {
	if err := p.admin.Get(p.ctx, client.ObjectKeyFromObject(set), set); err != nil {
		return false, err
	}
	machines, err := p.machines()
	for i := range machines {
		if ptr.Deref(machines[i].Status.ErrorReason, "") == "" {
			return false, err
		}
	}
	return len(set.Status.Backoffs) == 1 && set.Status.Backoffs[0].Step == 2 && len(machines) == 2, err
}

// NobodyJoins is a bare set of two whose servers boot and never become nodes. It is played without a crash.
func NobodyJoins() Story {
	mute := func(p *play) error {
		p.mute = true
		return nil
	}
	return Story{Name: "no server becomes a node", before: mute, play: (*play).nobodyJoins}
}

// nobodyJoins checks that Machines past their join deadline are replaced, and that one at a time is tried then.
func (p *play) nobodyJoins() error {
	m, err := p.newMachine()
	if err != nil {
		return err
	}
	before := p.Cloud.CallCount("POST /servers")
	set, err := p.setOfTwo(m)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := p.until("fifty minutes have passed", func() (bool, error) { return time.Since(start) > 50*time.Minute, nil }); err != nil {
		return err
	}
	// Two at once; then, each time that a join deadline of 10 min has passed, one.
	made := p.Cloud.CallCount("POST /servers") - before
	if made < 5 || made > 6 {
		return fmt.Errorf("%d servers were made in 50 minutes, want 5 or 6", made)
	}
	if err := p.admin.Delete(p.ctx, set); err != nil {
		return fmt.Errorf("deleting the set: %w", err)
	}
	return p.ended(made, 2)
}
