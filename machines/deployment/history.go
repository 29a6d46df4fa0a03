package deployment

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/rollout"
)

// keptPlans is how many plans are kept per deployment.
const keptPlans = 100

// history keeps the last plans of each deployment in memory: explanation, not state.
type history struct {
	mu    sync.Mutex
	plans map[types.NamespacedName][]keptPlan
}

// keptPlan is a rollout.Record as compressed JSON, since it holds what was seen of every Machine; steps are its own.
type keptPlan struct {
	steps  []rollout.Step
	record []byte
}

func newHistory() *history { return &history{plans: map[types.NamespacedName][]keptPlan{}} }

// keep adds a plan that does or says something else than the one before. It says whether it did.
func (h *history) keep(deployment types.NamespacedName, s rollout.Snapshot, p rollout.Plan) (bool, error) {
	if len(p.Steps) == 0 || h.said(deployment, p.Steps) {
		return false, nil
	}
	record, err := rollout.NewRecord(s, p)
	if err != nil {
		return true, err
	}
	packed, err := pack(record)
	if err != nil {
		return true, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	all := append(h.plans[deployment], keptPlan{steps: p.Steps, record: packed})
	h.plans[deployment] = all[max(0, len(all)-keptPlans):]
	return true, nil
}

// said says that the last plan had these very steps: it is being waited for.
func (h *history) said(deployment types.NamespacedName, steps []rollout.Step) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.plans[deployment]
	return len(all) > 0 && slices.Equal(all[len(all)-1].steps, steps)
}

func (h *history) forget(deployment types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.plans, deployment)
}

// Plans returns the last plans of a deployment, oldest first, at most a hundred, as long as this process has led.
func (r *Reconciler) Plans(deployment types.NamespacedName) ([]rollout.Record, error) {
	r.plans.mu.Lock()
	all := slices.Clone(r.plans.plans[deployment])
	r.plans.mu.Unlock()
	records := make([]rollout.Record, len(all))
	for i := range all {
		if err := unpack(all[i].record, &records[i]); err != nil {
			return nil, err
		}
	}
	return records, nil
}

func pack(record rollout.Record) ([]byte, error) {
	var packed bytes.Buffer
	writer, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		return nil, fmt.Errorf("packing a plan: %w", err)
	}
	if err := json.NewEncoder(writer).Encode(record); err != nil {
		return nil, fmt.Errorf("packing a plan: %w", err)
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("packing a plan: %w", err)
	}
	return packed.Bytes(), nil
}

func unpack(packed []byte, record *rollout.Record) error {
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return fmt.Errorf("unpacking a plan: %w", err)
	}
	if err := json.NewDecoder(reader).Decode(record); err != nil {
		return fmt.Errorf("unpacking a plan: %w", err)
	}
	return nil
}
