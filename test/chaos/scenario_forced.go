package chaos

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// forcedWithin is how long a forced deletion may take, whatever the cloud and the eviction API respond.
const forcedWithin = 5 * time.Minute

// forcedDeletion deletes a running Machine by force. It checks that an Event names all of the Machine's resources that
// remain in the cloud.
func (h *harness) forcedDeletion() error {
	m, err := h.NewMachine()
	if err != nil {
		return err
	}
	if err := h.Admin.Create(h.Context, m); err != nil {
		return fmt.Errorf("creating the Machine: %w", err)
	}
	if err := h.running(1); err != nil {
		return err
	}
	h.recordDeletion()
	h.forced = true
	force := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, v1alpha1.AnnotationForceDelete))
	if err := errors.Join(h.Admin.Patch(h.Context, m, force), h.Admin.Delete(h.Context, m)); err != nil {
		return fmt.Errorf("deleting the Machine by force: %w", err)
	}
	since, within := time.Now(), forcedWithin+h.extraTime()
	var slow error
	if err := h.until("no Machine is left", func() (bool, error) {
		machines, err := h.Machines()
		if err == nil && len(machines) > 0 && time.Since(since) > within {
			slow = fmt.Errorf("the forced deletion took longer than %s\n%s", within, h.describe())
		}
		return len(machines) == 0 || slow != nil, err
	}); err != nil || slow != nil {
		return errors.Join(err, slow)
	}
	// Wait until the cloud has carried out its calls and the Event is written.
	if err := h.until("the cloud has carried out all calls", func() (bool, error) { return time.Since(since) > within+time.Minute, nil }); err != nil {
		return err
	}
	h.recordCalls()
	return errors.Join(h.CheckUnrelated(), h.CheckCreates(1, 0), h.leftIsNamed(m))
}

// leftIsNamed returns an error unless Events name all of the Machine's resources that remain in the cloud.
func (h *harness) leftIsNamed(m *v1alpha1.Machine) error {
	left := h.Ours()
	ids := slices.Concat(left.Servers, left.Ports, left.FloatingIPs, left.Volumes)
	if failing := h.run.Failing; len(ids) == 0 || failing != nil && failing.At.Call == "kube POST events" {
		return nil
	}
	texts, err := h.texts()
	if err != nil {
		return err
	}
	for _, id := range ids {
		if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, "may be left") && strings.Contains(text, id) }) {
			return fmt.Errorf("%s of Machine %s is left in the cloud, and no Event names it:\n%s", id, m.Name, strings.Join(texts, "\n"))
		}
	}
	return nil
}
